"""What is known of each token apart from the model: F, R, L when its merge was made, and how often training saw it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dataservice import Store
from tokenizer import Tokenizer, TokenizerError
from tokenizer.measures.merge_graph import count_made
from tokenizer.progress import Progress

__all__ = ["Evidence", "count_occurrences", "gather_evidence", "with_history"]

NUM_BYTES = 256
BLOCK_TOKENS = 1 << 24


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
    """How often training data have the token; None where no store was given."""
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


def gather_evidence(tokenizer: Tokenizer, occurrences: np.ndarray | None = None) -> Evidence:
    """Put together what the tokenizer knows of its merges and what was counted, int64[V], if anything was."""
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
    if occurrences is not None:
        seen = np.asarray(occurrences, np.int64)[learned]
        made = count_made(tokenizer.pairs, seen)
        standing = np.where(made > 0, _share(seen, made), standing)

    def by_id(column: np.ndarray, of_special: float = 0) -> np.ndarray:
        ordered = np.full(tokenizer.vocab_size, of_special, column.dtype)
        ordered[learned] = column
        return ordered

    known = {name: by_id(column) for name, column in columns.items()}
    shares = by_id(standing, np.nan)
    return Evidence(**known, final_frequency=by_id(final), occurrences=occurrences, standing=shares)


def with_history(tokenizer: Tokenizer, place: Path) -> Tokenizer:
    """The tokenizer with F, R, L of its merges, where the folder that it was read from has them beside it."""
    if tokenizer.merges is not None or not (place / "merges.parquet").is_file():
        return tokenizer
    try:
        ours = Tokenizer.load(place)
    except TokenizerError:
        return tokenizer
    return ours if ours.fingerprint == tokenizer.fingerprint else tokenizer


def count_occurrences(store: Store, vocab_size: int, progress: Progress | None = None) -> np.ndarray:
    """How often each token is in a store (held-out documents are not), int64[vocab_size]."""
    counts = np.zeros(vocab_size, np.int64)
    sizes = store.shards.tokens.tolist()
    for shard, size in enumerate(sizes):
        for first in range(0, size, BLOCK_TOKENS):
            block = store.read_rows(shard, np.array([first]), min(BLOCK_TOKENS, size - first))
            counts += np.bincount(block[0], minlength=vocab_size)
        if progress:
            progress("count tokens of the store", shard + 1, len(sizes))
    return counts


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, NaN where that is 0 / 0."""
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
