"""Best-fit decreasing packing of short pieces into rows of one length."""

from typing import NamedTuple

import numpy as np

__all__ = ["Packing", "pack"]


class Packing(NamedTuple):
    """Rows of pieces: row i holds pieces[offsets[i]:offsets[i + 1]], in that order from its left."""

    pieces: np.ndarray  # int64[P], indexes into the lengths that were packed
    offsets: np.ndarray  # int64[rows + 1]


def pack(lengths: np.ndarray, capacity: int) -> Packing:
    """Pack pieces of 1 to capacity tokens into rows of `capacity`, longest first, each into the fullest row it fits.

    Equal pieces keep their order, and rows are numbered in the order in which they are opened, so the result is a
    function of the lengths alone. The work is on the histogram: pieces of one length go to all rows of one fill at
    once. Lengths [3, 2, 1, 2] with capacity 4 give rows (3, 1) and (2, 2).
    """
    # order: (P,) pieces, longest first; rows: (P,) the row of each of them
    order = np.argsort(-lengths, kind="stable")
    counts = np.bincount(lengths, minlength=capacity + 1)
    rows = np.empty(len(lengths), dtype=np.int64)
    free: list[np.ndarray] = [np.empty(0, dtype=np.int64) for _ in range(capacity + 1)]
    placed, opened = 0, 0
    for length in np.flatnonzero(counts)[::-1].tolist():
        remaining = int(counts[length])
        for space in range(length, capacity):
            if not remaining:
                break
            if free[space].size:
                taken = _fill(free, space, length, remaining)
                rows[placed : placed + len(taken)] = taken
                placed, remaining = placed + len(taken), remaining - len(taken)
        if remaining:
            fresh = -(-remaining // (capacity // length))
            free[capacity] = np.arange(opened, opened + fresh)
            rows[placed : placed + remaining] = _fill(free, capacity, length, remaining)
            placed, opened = placed + remaining, opened + fresh
    by_row = np.argsort(rows, kind="stable")
    offsets = np.zeros(opened + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=opened), out=offsets[1:])
    return Packing(order[by_row], offsets)


def _fill(free: list[np.ndarray], space: int, length: int, count: int) -> np.ndarray:
    """Put up to `count` pieces of `length` into the rows with `space` left; return the row of each, updating `free`.

    A row that took one piece and still has room is the fullest that fits, so a row takes all it can before the next.
    """
    each = space // length
    used = min(len(free[space]), -(-count // each))
    rows, free[space] = free[space][:used], free[space][used:]
    taken = np.repeat(rows, each)[:count]
    full = len(taken) // each
    left = space - each * length
    free[left] = np.concatenate([free[left], rows[:full]])
    if full < used:
        left = space - (len(taken) - full * each) * length
        free[left] = np.concatenate([free[left], rows[full:]])
    return taken
