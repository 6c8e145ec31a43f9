"""What is divided among counters, and what comes back."""

from typing import NamedTuple

import numpy as np

from tokenizer.errors import TokenizerError

__all__ = ["Batch", "Failure", "Part"]


class Batch(NamedTuple):
    """Documents in a row."""

    number: int
    """Rises with their place in the corpus."""
    period: int
    """Counts the times before it that words may have been forgotten."""
    first: int
    """Documents before it."""
    num_characters: int
    documents: list[tuple[str, str, str]]
    """Text, repository and language."""


class Failure(NamedTuple):
    """Why a batch cannot be counted."""

    number: int
    """Of the batch."""
    error: TokenizerError


class Part(NamedTuple):
    """What one counter found in some of the batches."""

    num_characters: int
    data: np.ndarray  # uint8: the words
    offsets: np.ndarray  # int64[words + 1]
    counts: np.ndarray  # int64[words]
    ranks: np.ndarray  # int64[words]: rise with the first occurrence
    sources: list[tuple[str, str]]  # repository and language
    source_ranks: list[int]  # rise with the first occurrence
    entries: np.ndarray  # int64: word << 32 | source, both numbers within this part; may repeat
