"""What a vocabulary makes of evaluation documents, by repository and language, so that repositories can be drawn.

Axes: G groups of documents of one language and repository, R repositories, V tokens, D draws.
"""

import io
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tokenizer import Document, Tokenizer
from tokenizer.measures.inequality import gini
from tokenizer.measures.names import count_name_parts
from tokenizer.measures.numbers import count_three_digit_numbers
from tokenizer.measures.subject import learned_tokens
from tokenizer.measures.usage import measure_usage
from tokenizer.output import write_file

__all__ = ["Usage", "compression", "coverage", "draw_weights", "gini_index", "measure", "read_usage", "write_usage"]

_SEPARATOR = "\n"


class Usage(NamedTuple):
    """A vocabulary and its use."""

    languages: list[str]
    """[G]"""
    repositories: list[str]
    """[G]; the same ones, in the same order, in every vocabulary that is measured on the same documents."""
    num_bytes: np.ndarray
    """int64[G], of UTF-8."""
    num_tokens: np.ndarray
    """int64[G]"""
    is_used: np.ndarray
    """bool[G, V]: whether a byte or learned token occurs."""
    tokens: list[bytes]
    """Byte and learned ones."""
    vocab_size: int
    """With special tokens."""
    steps: int
    """Merges, and pairs skipped on reaching the top."""

    @property
    def names(self) -> list[str]:
        """Of the repositories, in the order of draws."""
        return sorted(set(self.repositories))

    @property
    def mean_length(self) -> float:
        """Bytes, over the byte and learned tokens."""
        return sum(map(len, self.tokens)) / len(self.tokens)

    @property
    def three_digit_numbers(self) -> int:
        return count_three_digit_numbers(self.tokens)

    @property
    def longest_name(self) -> int:
        """Parts of the longest name."""
        return int(max(count_name_parts(self.tokens)))


def measure(tokenizer: Tokenizer, documents: Iterable[Document]) -> Usage:
    """Encode documents once."""
    labelled = (
        Document(each.text, each.repository, each.language + _SEPARATOR + each.repository, each.path)
        for each in documents
    )
    size, (usage,) = measure_usage([tokenizer], labelled)
    languages, repositories = zip(*(label.split(_SEPARATOR, 1) for label in size.languages), strict=True)
    is_text = np.array([len(token) > 0 for token in tokenizer.token_bytes])
    return Usage(
        list(languages),
        list(repositories),
        size.num_bytes,
        usage.num_tokens,
        usage.is_used & is_text,
        learned_tokens(tokenizer),
        tokenizer.vocab_size,
        tokenizer.merges.steps if tokenizer.merges else 0,
    )


def draw_weights(num_repositories: int, draws: int, seed: int = 0) -> np.ndarray:
    """How often each repository is drawn when as many are drawn as there are, with replacement; int64[D, R]."""
    shares = np.full(num_repositories, 1 / num_repositories)
    return np.random.default_rng(seed).multinomial(num_repositories, shares, size=draws)


def compression(usage: Usage, weights_DR: np.ndarray) -> np.ndarray:
    """Bytes a token of every draw; float64[D], NaN where nothing was drawn that has text."""
    counts = [weights_DR @ _by_repository(usage, column) for column in (usage.num_bytes, usage.num_tokens)]
    return np.divide(*counts, out=np.full(len(weights_DR), np.nan), where=counts[1] > 0)


def coverage(usage: Usage, weights_DR: np.ndarray) -> np.ndarray:
    """Distinct tokens that the text of every draw has; int64[D]."""
    used_RV = np.zeros((weights_DR.shape[1], usage.is_used.shape[1]), bool)
    np.logical_or.at(used_RV, _numbers(usage), usage.is_used)
    return np.array([np.count_nonzero(used_RV[weights > 0].any(axis=0)) for weights in weights_DR])


def gini_index(usage: Usage, weights_DR: np.ndarray) -> np.ndarray:
    """Gini index of the compression of the named languages that are in every draw; float64[D], NaN under two."""
    names, places = np.unique(usage.languages, return_inverse=True)
    sums = []
    for column in (usage.num_bytes, usage.num_tokens):
        table_RL = np.zeros((weights_DR.shape[1], len(names)), np.int64)
        np.add.at(table_RL, (_numbers(usage), places), column)
        sums.append(weights_DR @ table_RL)
    found = []
    for bytes_L, tokens_L in zip(*sums, strict=True):
        is_there = (tokens_L > 0) & (names != "")
        index = gini((bytes_L[is_there] / tokens_L[is_there]).tolist())
        found.append(np.nan if index is None else index)
    return np.array(found)


def write_usage(path: Path, usage: Usage) -> None:
    """Write a file of NumPy arrays, whole or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        languages=np.array(usage.languages),
        repositories=np.array(usage.repositories),
        num_bytes=usage.num_bytes,
        num_tokens=usage.num_tokens,
        is_used=np.packbits(usage.is_used, axis=1),
        columns=usage.is_used.shape[1],
        tokens=np.frombuffer(b"".join(usage.tokens), np.uint8),
        offsets=np.cumsum([0, *map(len, usage.tokens)]),
        vocab_size=usage.vocab_size,
        steps=usage.steps,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, buffer.getvalue())


def read_usage(path: Path) -> Usage:
    """Read what `write_usage` wrote."""
    with np.load(path) as arrays:
        data, offsets = arrays["tokens"].tobytes(), arrays["offsets"].tolist()
        return Usage(
            arrays["languages"].tolist(),
            arrays["repositories"].tolist(),
            arrays["num_bytes"],
            arrays["num_tokens"],
            np.unpackbits(arrays["is_used"], axis=1, count=int(arrays["columns"])).astype(bool),
            _cut(data, offsets),
            int(arrays["vocab_size"]),
            int(arrays["steps"]),
        )


def _cut(data: bytes, offsets: Sequence[int]) -> list[bytes]:
    return [data[start:end] for start, end in pairwise(offsets)]


def _numbers(usage: Usage) -> np.ndarray:
    """The repository of each group, int64[G]."""
    return np.searchsorted(usage.names, usage.repositories)


def _by_repository(usage: Usage, column: np.ndarray) -> np.ndarray:
    """int64[G] to int64[R]."""
    return np.bincount(_numbers(usage), weights=column, minlength=len(usage.names)).astype(np.int64)
