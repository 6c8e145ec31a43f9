"""Best-fit decreasing packing of pieces into rows of one length."""

from typing import NamedTuple

import numpy as np

from dataservice.pieces import PiecedRows

__all__ = ["Packing", "pack", "pack_pieces"]


class Packing(NamedTuple):
    """Rows of pieces: row i holds pieces[offsets[i]:offsets[i + 1]], in that order from its left."""

    pieces: np.ndarray  # int64[P], indexes into the lengths that were packed
    offsets: np.ndarray  # int64[rows + 1]


def pack_pieces(starts: np.ndarray, lengths: np.ndarray, capacity: int) -> PiecedRows:
    """Return the rows of `capacity` that `pack` makes of pieces of a shard; starts, lengths: (P,)."""
    packing = pack(lengths, capacity)
    return PiecedRows(starts[packing.pieces], lengths[packing.pieces], packing.offsets)


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
    free = _Spaces()
    placed, opened = 0, 0
    for length in np.flatnonzero(counts)[::-1].tolist():
        remaining = int(counts[length])
        while remaining and (space := free.least(length)):
            taken = _fill(free, space, length, remaining)
            rows[placed : placed + len(taken)] = taken
            placed, remaining = placed + len(taken), remaining - len(taken)
        if remaining:
            fresh = -(-remaining // (capacity // length))
            free.add(capacity, np.arange(opened, opened + fresh))
            rows[placed : placed + remaining] = _fill(free, capacity, length, remaining)
            placed, opened = placed + remaining, opened + fresh
    by_row = np.argsort(rows, kind="stable")
    offsets = np.zeros(opened + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=opened), out=offsets[1:])
    return Packing(order[by_row], offsets)


class _Spaces:
    """The rows that have room left, by how much; those of one space in the order in which they came to have it."""

    def __init__(self) -> None:
        self._rows: dict[int, list[np.ndarray]] = {}
        # Bit s says whether rows have space s: the least of at least n is found in one shift, not by trying each.
        self._bits = 0

    def least(self, length: int) -> int:
        """Return the least space of any row that has at least `length`, or 0."""
        bits = self._bits >> length
        return length + (bits & -bits).bit_length() - 1 if bits else 0

    def add(self, space: int, rows: np.ndarray) -> None:
        """Add rows that have so much space left; full ones are done with."""
        if space and rows.size:
            self._rows.setdefault(space, []).append(rows)
            self._bits |= 1 << space

    def take(self, space: int, count: int) -> np.ndarray:
        """Return the first rows that have this space, `count` or all of them, and forget that they have it."""
        parts = self._rows.pop(space)
        self._bits ^= 1 << space
        rows = np.concatenate(parts)
        self.add(space, rows[count:])
        return rows[:count]


def _fill(free: _Spaces, space: int, length: int, count: int) -> np.ndarray:
    """Put up to `count` pieces of `length` into the rows with `space` left; return the row of each, updating `free`.

    A row that took one piece and still has room is the fullest that fits, so a row takes all it can before the next.
    """
    each = space // length
    rows = free.take(space, -(-count // each))
    taken = np.repeat(rows, each)[:count]
    full = len(taken) // each
    free.add(space - each * length, rows[:full])
    free.add(space - (len(taken) - full * each) * length, rows[full:])
    return taken
