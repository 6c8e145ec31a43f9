"""What is known of each token apart from the model: F, R, L when its merge was made, and how often training saw it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from evaluation.undertrained.occurrences import Occurrences
from tokenizer import Tokenizer, TokenizerError
from tokenizer.measures.merge_graph import count_made

__all__ = ["Evidence", "gather_evidence", "with_history"]

NUM_BYTES = 256


class Evidence(NamedTuple):
    """Of every token, by id: int64[V] each, 0 where nothing is known."""

    frequency: np.ndarray
    """F: how often the pair was there when it was merged."""
    repositories: np.ndarray
    """R of the pair."""
    languages: np.ndarray
    """L of the pair."""
    final_frequency: np.ndarray
    """What of F was not merged on into other tokens: how often the token stands in what the tokenizer learnt from."""
    occurrences: np.ndarray | None
    """How often the token was counted in `scope`; None where it was not."""
    scope: str
    """What occurrences are counted in, in words; "" for nothing."""
    standing: np.ndarray
    """float64[V]: the share of the cases in which a token is made that it stays; NaN where it is not known."""

    def by_frequency(self, is_eligible: np.ndarray) -> np.ndarray:
        """Ids of eligible tokens, int64[n], the most frequent first.

        By occurrences; else by what is left of F, of the tokens that have one; else by their number, since merges
        come in the order of frequency.
        """
        eligible = np.flatnonzero(is_eligible)
        if self.occurrences is not None:
            return eligible[np.argsort(-self.occurrences[eligible], kind="stable")]
        known = eligible[self.frequency[eligible] > 0]
        return known[np.argsort(-self.final_frequency[known], kind="stable")] if len(known) else eligible


def gather_evidence(tokenizer: Tokenizer, counted: Occurrences | None = None) -> Evidence:
    """Put together what the tokenizer knows of its merges and what was counted, if anything was."""
    learned = tokenizer.ids[: NUM_BYTES + len(tokenizer.pairs)]
    # Of what is known of merges, by the order of tokens: bytes, then merges.
    columns = {name: np.zeros(len(learned), np.int64) for name in ("frequency", "repositories", "languages")}
    if tokenizer.merges is not None:
        for name, column in columns.items():
            column[NUM_BYTES:] = getattr(tokenizer.merges, name)
    frequency = columns["frequency"]
    moved = np.zeros_like(frequency)
    np.add.at(moved, tokenizer.pairs, frequency[NUM_BYTES:, None])
    final = np.maximum(frequency - moved, 0)
    standing = _share(final, frequency)
    if counted is not None:
        seen = np.asarray(counted.counts, np.int64)[learned]
        made = count_made(tokenizer.pairs, seen)
        standing = np.where(made > 0, _share(seen, made), standing)

    def by_id(column: np.ndarray, of_special: float = 0) -> np.ndarray:
        ordered = np.full(tokenizer.vocab_size, of_special, column.dtype)
        ordered[learned] = column
        return ordered

    known = {name: by_id(column) for name, column in columns.items()}
    shares = by_id(standing, np.nan)
    occurrences, scope = (None, "") if counted is None else counted
    return Evidence(**known, final_frequency=by_id(final), occurrences=occurrences, scope=scope, standing=shares)


def with_history(tokenizer: Tokenizer, place: Path) -> Tokenizer:
    """The tokenizer with F, R, L of its merges, where the folder that it was read from has them beside it."""
    if tokenizer.merges is not None or not (place / "merges.parquet").is_file():
        return tokenizer
    try:
        ours = Tokenizer.load(place)
    except TokenizerError:
        return tokenizer
    return ours if ours.fingerprint == tokenizer.fingerprint else tokenizer


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, NaN where that is 0 / 0."""
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
