"""Rows as arrays: whole batches gathered from the memory maps of shards."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dataservice.buckets import buckets
from dataservice.config import DataConfig
from dataservice.decomposition import PackedRows
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
        width = stop - first + 1
        stretches = np.zeros(len(places.starts), _stretch_type(self._store.dtype, width))
        for shard, here in _groups(places.shards):
            if shard != FILLING:
                stretches[here] = _stretches(self._store.tokens(shard), width)[places.starts[here] + first]
        # tokens: (rows, columns + 1)
        tokens = stretches.view(self._store.dtype).reshape(-1, width)
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
            packed = None if shard == FILLING else self._indexes.rows(shard).packed
            if packed is not None:
                source, numbers = _unpack(packed, places.starts[here], length)
                tokens, real = self._store.tokens(shard), numbers > 0
                segments[here] = numbers
                inputs[here] = tokens.take(source, mode="clip") * real
                targets[here] = tokens.take(source + 1, mode="clip") * real
        return {"inputs": inputs, "targets": targets, "segments": segments}


def _unpack(packed: PackedRows, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return for every place of packed rows the position of its input in the shard (any, in padding) and its segment.

    int64 and int32, both (rows, length). Each row is its pieces and then one of padding, possibly of no tokens.
    """
    count = packed.offsets[rows + 1] - packed.offsets[rows]
    ends = np.cumsum(count)
    piece, segment = _ranges(packed.offsets[rows], count), _ranges(np.ones_like(count), count)
    # slots: (P,) where the pieces are among pieces and paddings
    slots = np.arange(len(piece)) + np.repeat(np.arange(len(rows)), count)
    sizes, starts, numbers = np.zeros((3, len(piece) + len(rows)), np.int64)
    sizes[slots], starts[slots], numbers[slots] = packed.lengths[piece], packed.starts[piece], segment
    sizes[ends + np.arange(len(rows))] = length - np.add.reduceat(packed.lengths[piece], ends - count)
    source = _ranges(starts, sizes).reshape(len(rows), length)
    return source, np.repeat(numbers.astype(np.int32), sizes).reshape(len(rows), length)


def _stretch_type(dtype: np.dtype, width: int) -> np.dtype:
    """Return the type of `width` tokens as one item, which NumPy copies 2 to 3 times faster than a row of items."""
    return np.dtype((np.void, width * dtype.itemsize))


def _stretches(tokens: np.ndarray, width: int) -> np.ndarray:
    """Return the view of all stretches of `width` tokens, (len(tokens) - width + 1,), each one item."""
    return np.ndarray((len(tokens) - width + 1,), _stretch_type(tokens.dtype, width), tokens, 0, tokens.strides)


def _groups(shards: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (shard, its indexes in `shards`) for each shard, in order."""
    # Integers of up to 16 bits are sorted 4 times faster.
    order = np.argsort(shards.astype(np.min_scalar_type(-1 - int(shards.max(initial=0)))), kind="stable")
    ordered = shards[order]
    edges = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
    for first, end in pairwise(edges):
        if first < end:
            yield int(ordered[first]), order[first:end]


def _ranges(firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return range(first, first + count) of each pair, joined: [5, 1] and [2, 3] give 5 6 1 2 3."""
    shift = firsts - (np.cumsum(counts) - counts)
    return np.arange(counts.sum()) + np.repeat(shift, counts)
