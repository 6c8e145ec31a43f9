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
        shards, starts = np.full_like(rows, FILLING), np.full_like(rows, FILLING)
        if not real.any():
            return Places(shards, starts)
        shards[real], numbers = self._windows.find_shards(bucket, rows[real])
        for shard, here in group_by_shard(shards[real]):
            rows_of_shard = self._indexes.rows(shard)[bucket]
            if not isinstance(rows_of_shard, PiecedRows):
                numbers[here] = rows_of_shard[numbers[here]]
        starts[real] = numbers
        return Places(shards, starts)

    def read(self, bucket: int, places: Places, columns: slice) -> dict[str, np.ndarray]:
        """Return the arrays of a batch: columns of the rows at `places` (of one dimension).

        inputs, targets (rows, columns) in the store's dtype, with weights float32[rows], 0 where there is no row; in
        the packed bucket with segments int32 (rows, columns), which number the pieces of a row from 1 (where attention
        goes over the whole row, all are 1) and are 0 where there is none, instead.
        """
        length, packed = self._buckets[bucket]
        if packed:
            arrays = self._read_pieces(bucket, places, length)
            return {name: np.ascontiguousarray(array[:, columns]) for name, array in arrays.items()}
        real = places.shards != FILLING
        first, stop, _ = columns.indices(length)
        # tokens: (rows, columns + 1)
        if self._joins_documents:
            tokens = self._read_joined(bucket, places, length)[:, first : stop + 1]
        else:
            tokens = self._store.read_rows(places.shards[real], places.starts[real] + first, stop - first + 1)
        if len(tokens) < len(real):
            tokens, rows = np.zeros((len(real), tokens.shape[1]), self._store.dtype), tokens
            tokens[real] = rows
        return {
            "inputs": np.ascontiguousarray(tokens[:, :-1]),
            "targets": np.ascontiguousarray(tokens[:, 1:]),
            "weights": real.astype(np.float32),
        }

    def _read_joined(self, bucket: int, places: Places, length: int) -> np.ndarray:
        """Return the tokens of full rows of joined documents, and one more each; (rows that are there, length + 1).

        A piece's last target is the next one's first input, so that only the last piece of a row needs it.
        """
        pieces = self._find_pieces(bucket, places)
        is_last = np.diff(pieces.rows, append=-1) != 0
        tokens = self._store.read_pieces(pieces.shards, pieces.starts, pieces.lengths + is_last)
        return tokens.reshape(-1, length + 1)

    def _read_pieces(self, bucket: int, places: Places, length: int) -> dict[str, np.ndarray]:
        """Return inputs, targets and segments of whole rows, (rows, length)."""
        pieces = self._find_pieces(bucket, places)
        ends = np.cumsum(pieces.lengths + 1)
        # tokens: each piece and the token after it, which is its last target
        tokens = self._store.read_pieces(pieces.shards, pieces.starts, pieces.lengths + 1)
        is_input, is_target = np.ones((2, len(tokens)), bool)
        is_input[ends - 1] = is_target[ends - pieces.lengths - 1] = False
        shape = (len(places.starts), length)
        fill = np.bincount(pieces.rows, pieces.lengths, len(places.starts))
        real = np.arange(length) < fill[:, None]
        arrays = {name: np.zeros(shape, self._store.dtype) for name in ("inputs", "targets")}
        arrays["inputs"][real], arrays["targets"][real] = tokens[is_input], tokens[is_target]
        segments = np.zeros(shape, np.int32)
        numbers = np.ones_like(pieces.numbers) if self._joins_documents else pieces.numbers
        segments[real] = np.repeat(numbers.astype(np.int32), pieces.lengths)
        return {**arrays, "segments": segments}

    def _find_pieces(self, bucket: int, places: Places) -> "Pieces":
        """Return the pieces of rows: row by row, in each from the left."""
        found = [Pieces(*np.zeros((len(Pieces._fields), 0), np.int64))]
        for shard, here in group_by_shard(places.shards):
            rows_of_shard = None if shard == FILLING else self._indexes.rows(shard)[bucket]
            if isinstance(rows_of_shard, PiecedRows):
                first = rows_of_shard.offsets[places.starts[here]]
                count = rows_of_shard.offsets[places.starts[here] + 1] - first
                pieces, numbers = join_ranges(first, count), join_ranges(np.ones_like(count), count)
                columns = (np.full_like(pieces, shard), rows_of_shard.starts[pieces], rows_of_shard.lengths[pieces])
                found.append(Pieces(np.repeat(here, count), numbers, *columns))
        joined = [np.concatenate(column) for column in zip(*found, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        return Pieces(*(column[order] for column in joined))


class Pieces(NamedTuple):
    """Stretches of documents in rows, int64[P] each: `numbers` count those of a row from 1."""

    rows: np.ndarray
    numbers: np.ndarray
    shards: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
