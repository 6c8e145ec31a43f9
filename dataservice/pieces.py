"""Rows that are made of pieces of documents, one after the other."""

from typing import NamedTuple

import numpy as np

__all__ = ["PiecedRows", "ShardRows", "num_rows"]


class PiecedRows(NamedTuple):
    """Rows of a shard: row i holds the pieces offsets[i] to offsets[i + 1], one after the other.

    A piece that starts at s and has n inputs reads tokens[s : s + n + 1] and lies in one document: its last target is
    the `<eod>` after the document, or the next piece's first input where a document is cut.
    """

    starts: np.ndarray  # int64[P], position of each piece's first input in the shard
    lengths: np.ndarray  # int64[P], inputs of each piece
    offsets: np.ndarray  # int64[rows + 1]

    def slice(self, first: int, stop: int) -> "PiecedRows":
        """Return the rows first to stop - 1."""
        offsets = self.offsets[first : stop + 1]
        pieces = slice(int(offsets[0]), int(offsets[-1]))
        return PiecedRows(self.starts[pieces], self.lengths[pieces], offsets - offsets[0])

    def row_lengths(self) -> np.ndarray:
        """Return the inputs of each row, without padding; int64[rows]."""
        ends = np.concatenate([[0], np.cumsum(self.lengths)])
        return np.diff(ends[self.offsets])


ShardRows = tuple[np.ndarray | PiecedRows, ...]
"""The rows of one shard in each bucket: those of one piece each, that fills the row, as int64[rows], the positions of
their first inputs; any others as `PiecedRows`."""


def num_rows(rows: np.ndarray | PiecedRows) -> int:
    """Return how many rows of a bucket there are."""
    return len(rows.offsets) - 1 if isinstance(rows, PiecedRows) else len(rows)
