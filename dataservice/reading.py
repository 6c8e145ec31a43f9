"""Rows as arrays: whole batches gathered from the memory maps of shards."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dataservice.buckets import buckets
from dataservice.config import DataConfig
from dataservice.indexes import RowIndexes
from dataservice.store import Store
from dataservice.windows import FILLING, Windows

__all__ = ["Places", "RowReader"]


class Places(NamedTuple):
    """Where rows of a bucket are; two int64 arrays, FILLING where there is no row.

    `starts` are positions of the rows' first inputs, or the rows' numbers within the shard in the packed bucket.
    """

    shards: np.ndarray
    starts: np.ndarray


class RowReader:
    """Reads rows by their number within a bucket, in store order."""

    def __init__(self, store: Store, config: DataConfig, windows: Windows, indexes: RowIndexes) -> None:
        self._store = store
        self._buckets = buckets(config)
        self._windows = windows
        self._indexes = indexes

    def place(self, bucket: int, rows: np.ndarray) -> Places:
        """Return where the rows of a bucket are; `rows` may have any shape."""
        real = rows != FILLING
        shards, starts = np.full_like(rows, FILLING), np.full_like(rows, FILLING)
        if not real.any():
            return Places(shards, starts)
        shards[real], numbers = self._windows.find_shards(bucket, rows[real])
        if not self._buckets[bucket].packed:
            for shard, here in _groups(shards[real]):
                numbers[here] = self._indexes.rows(shard).starts[bucket][numbers[here]]
        starts[real] = numbers
        return Places(shards, starts)

    def read(self, bucket: int, places: Places, columns: slice) -> dict[str, np.ndarray]:
        """Return the arrays of a batch: columns of the rows at `places` (of one dimension).

        inputs, targets (rows, columns) in the store's dtype, with weights float32[rows], 0 where there is no row; in
        the packed bucket with segments int32 (rows, columns), which number the tails of a row from 1 and are 0 where
        there is none, instead.
        """
        length, packed = self._buckets[bucket]
        if packed:
            arrays = self._read_packed(places, length)
            return {name: np.ascontiguousarray(array[:, columns]) for name, array in arrays.items()}
        first, stop, _ = columns.indices(length)
        # tokens: (rows, columns + 1)
        tokens = np.zeros((len(places.starts), stop - first + 1), self._store.dtype)
        for shard, here in _groups(places.shards):
            if shard != FILLING:
                view = sliding_window_view(np.asarray(self._store.tokens(shard)), tokens.shape[1])
                tokens[here] = view[places.starts[here] + first]
        return {
            "inputs": np.ascontiguousarray(tokens[:, :-1]),
            "targets": np.ascontiguousarray(tokens[:, 1:]),
            "weights": (places.shards != FILLING).astype(np.float32),
        }

    def _read_packed(self, places: Places, length: int) -> dict[str, np.ndarray]:
        """Return inputs, targets and segments of whole packed rows, (rows, length)."""
        shape = (len(places.starts), length)
        inputs, targets = np.zeros(shape, self._store.dtype), np.zeros(shape, self._store.dtype)
        segments = np.zeros(shape, np.int32)
        for shard, here in _groups(places.shards):
            if shard == FILLING:
                continue
            tokens = np.asarray(self._store.tokens(shard))
            source, target, numbers = self._unpack(shard, places.starts[here], here, length)
            inputs.reshape(-1)[target] = tokens[source]
            targets.reshape(-1)[target] = tokens[source + 1]
            segments.reshape(-1)[target] = numbers
        return {"inputs": inputs, "targets": targets, "segments": segments}

    def _unpack(self, shard: int, rows: np.ndarray, here: np.ndarray, length: int) -> tuple[np.ndarray, ...]:
        """Return for every token of packed rows of a shard its position there, its place in the batch, its segment.

        rows: numbers of packed rows of the shard; here: rows of the batch that they become. Three int64 arrays.
        """
        packed = self._indexes.rows(shard).packed
        assert packed is not None
        first, count = packed.offsets[rows], np.diff(packed.offsets)[rows]
        piece, segment = _ranges(first, count), _ranges(np.ones_like(count), count)
        size = packed.lengths[piece]
        # Pieces lie one after the other, each row's from its left: what earlier rows hold is taken off again.
        ends = np.cumsum(size)
        in_rows = np.add.reduceat(size, np.cumsum(count) - count)
        left = ends - size - np.repeat(np.cumsum(in_rows) - in_rows, count)
        source = _ranges(packed.starts[piece], size)
        target = _ranges(np.repeat(here * length, count) + left, size)
        return source, target, np.repeat(segment, size)


def _groups(shards: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (shard, its indexes in `shards`) for each shard, in order."""
    order = np.argsort(shards, kind="stable")
    edges = np.flatnonzero(np.diff(shards[order])) + 1
    for here in np.split(order, edges):
        if here.size:
            yield int(shards[here[0]]), here


def _ranges(firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return range(first, first + count) of each pair, joined: [5, 1] and [2, 3] give 5 6 1 2 3."""
    shift = firsts - (np.cumsum(counts) - counts)
    return np.arange(counts.sum()) + np.repeat(shift, counts)
