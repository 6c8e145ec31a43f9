"""Rows of different lengths in one flat array: ``values[offsets[i] : offsets[i + 1]]`` is row i."""

import numpy as np

__all__ = ["offsets_of", "take_rows"]


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Turn row lengths, int[rows], into offsets, int64[rows + 1]."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def take_rows(values: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gather rows, in the order of ``rows``, into (values, offsets).

    >>> take_rows(np.array([7, 8, 9]), np.array([0, 2, 3]), np.array([1, 0, 1]))
    (array([9, 7, 8, 9]), array([0, 1, 3, 4]))
    """
    starts = offsets[rows]
    lengths = offsets[rows + 1] - starts
    taken = offsets_of(lengths)
    positions = np.arange(taken[-1])
    positions += np.repeat(starts - taken[:-1], lengths)
    return values[positions], taken
