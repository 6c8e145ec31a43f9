"""Rows as arrays: whole batches gathered from the memory maps of shards."""

from typing import NamedTuple

import numpy as np

from dataservice.buckets import buckets
from dataservice.config import DataConfig
from dataservice.indexes import RowIndexes
from dataservice.pieces import PiecedRows
from dataservice.sequences import joins_documents
from dataservice.store import Store
from dataservice.store.gathering import group_by_shard, join_ranges
from dataservice.windows import FILLING, Windows

__all__ = ["Places", "RowReader"]

_LONG_ROW = 1024


class Places(NamedTuple):
    """Where rows of a bucket are; two int64 arrays, FILLING where there is no row.

    `starts` are positions of the rows' first inputs, or the rows' numbers within the shard where rows have pieces.
    """

    shards: np.ndarray
    starts: np.ndarray


class RowReader:
    """Reads rows by their number within a bucket, in store order."""

    def __init__(self, store: Store, config: DataConfig, windows: Windows, indexes: RowIndexes) -> None:
        self._store = store
        self._buckets = buckets(config)
        self._joins_documents = joins_documents(config)
        self._windows = windows
        self._indexes = indexes

    def place(self, bucket: int, rows: np.ndarray) -> Places:
        """Return where the rows of a bucket are; `rows` may have any shape."""
        real = rows != FILLING
        if not real.all():
            places = Places(np.full_like(rows, FILLING), np.full_like(rows, FILLING))
            places.shards[real], places.starts[real] = self.place(bucket, rows[real])
            return places
        shards, starts = self._windows.find_shards(bucket, rows.reshape(-1))
        for shard, here in group_by_shard(shards):
            rows_of_shard = self._indexes.rows(shard)[bucket]
            if not isinstance(rows_of_shard, PiecedRows):
                starts[here] = rows_of_shard[starts[here]]
        return Places(shards.reshape(rows.shape), starts.reshape(rows.shape))

    def read(self, bucket: int, places: Places, columns: slice) -> dict[str, np.ndarray]:
        """Return the arrays of a batch: columns of the rows at `places` (of one dimension).

        inputs, targets (rows, columns) in the store's dtype, with weights float32[rows], 0 where there is no row; in
        the packed bucket with segments int32 (rows, columns), which number the pieces of a row from 1 (where attention
        goes over the whole row, all are 1) and are 0 where there is none, instead.
        """
        length, packed = self._buckets[bucket]
        if packed or self._joins_documents:
            arrays = {name: array[:, columns] for name, array in self._read_pieces(bucket, places).items()}
        else:
            first, stop, _ = columns.indices(length)
            inputs, targets = self._read_rows(places, first, stop - first)
            arrays = {"inputs": inputs, "targets": targets}
        if not packed:
            arrays["weights"] = (places.shards != FILLING).astype(np.float32)
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    def _read_rows(self, places: Places, first: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and targets of rows of one piece, `length` of them from the one numbered `first` on."""
        real = places.shards != FILLING
        if real.all():
            return self._store.read_pairs(places.shards, places.starts + first, length)
        inputs, targets = np.zeros((2, len(real), length), self._store.dtype)
        pairs = self._store.read_pairs(places.shards[real], places.starts[real] + first, length)
        inputs[real], targets[real] = pairs
        return inputs, targets

    def _read_pieces(self, bucket: int, places: Places) -> dict[str, np.ndarray]:
        """Return inputs, targets and, where they are packed, segments of whole rows of pieces, (rows, length)."""
        pieces = self._find_pieces(bucket, places)
        length, packed = self._buckets[bucket]
        inputs, targets = self._store.read_pairs(pieces.shards, pieces.starts, pieces.lengths)
        arrays = {"inputs": inputs, "targets": targets}
        if packed:
            numbers = np.ones_like(pieces.numbers) if self._joins_documents else pieces.numbers
            arrays["segments"] = np.repeat(numbers.astype(np.int32), pieces.lengths)
        fill = np.bincount(pieces.rows, pieces.lengths, len(places.starts)).astype(np.int64)
        return {name: _pad(array, fill, length) for name, array in arrays.items()}

    def _find_pieces(self, bucket: int, places: Places) -> "Pieces":
        """Return the pieces of rows: row by row, in each from the left."""
        # found: of each shard, its rows here, the pieces of each, and starts and lengths of the pieces
        found = [tuple(np.zeros((4, 0), np.int64))]
        for shard, here in group_by_shard(places.shards):
            rows_of_shard = None if shard == FILLING else self._indexes.rows(shard)[bucket]
            if isinstance(rows_of_shard, PiecedRows):
                first = rows_of_shard.offsets[places.starts[here]]
                count = rows_of_shard.offsets[places.starts[here] + 1] - first
                pieces = join_ranges(first, count)
                found.append((here, count, rows_of_shard.starts[pieces], rows_of_shard.lengths[pieces]))
        rows, counts, starts, lengths = (np.concatenate(column) for column in zip(*found, strict=True))
        numbers, rows = join_ranges(np.ones_like(counts), counts), np.repeat(rows, counts)
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        return Pieces(rows, numbers[order], places.shards[rows], starts[order], lengths[order])


def _pad(values: np.ndarray, fill: np.ndarray, length: int) -> np.ndarray:
    """Return rows of `length`, of which each has its next fill[row] values from its left, and zeros after them."""
    shape = (len(fill), length)
    if len(values) == shape[0] * length:
        return values.reshape(shape)
    rows = np.zeros(shape, values.dtype)
    if length < _LONG_ROW:
        rows[np.arange(length) < fill[:, None]] = values
        return rows
    # A copy a row is 5 times faster than by a mask.
    ends = np.cumsum(fill)
    for row, first, end in zip(rows, (ends - fill).tolist(), ends.tolist(), strict=True):
        row[: end - first] = values[first:end]
    return rows


class Pieces(NamedTuple):
    """Stretches of documents in rows, int64[P] each: `numbers` count those of a row from 1."""

    rows: np.ndarray
    numbers: np.ndarray
    shards: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
