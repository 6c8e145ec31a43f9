"""Batches of held-out documents: the same ones at every evaluation of a run."""

from collections.abc import Iterator

import numpy as np

from dataservice.buckets import buckets, rows_per_step
from dataservice.config import DataConfig
from dataservice.hashing import derive_key
from dataservice.indexes import RowIndexes
from dataservice.loader import Batch, Block
from dataservice.permutation import permute
from dataservice.reading import RowReader
from dataservice.store import Store
from dataservice.windows import FILLING

__all__ = ["held_out_batches"]


def held_out_batches(
    store: Store, config: DataConfig, *, num_batches_per_bucket: int, block: Block | None = None
) -> list[Batch]:
    """Return batches of the documents that `store` keeps from training, as `dataservice.batches` makes them.

    Of each bucket, longest first, come up to `num_batches_per_bucket` batches of rows of the first window, which the
    seed picks and no row twice; the last one is filled with rows of no weight. A bucket that has no rows gives none,
    and so does a store without held-out documents. `step` counts the batches returned.
    """
    if store.held_out is None:
        return []
    indexes = RowIndexes(store.held_out, config)
    windows = indexes.windows()
    if not len(windows):
        return []
    # The held-out documents of a shard are committed before the shard, by a writer that locks the whole store.
    _, end = windows.bounds(0)
    if len(store.shards) < end:
        store.wait_for_shards(end)
    windows.learn(0)
    reader = RowReader(store.held_out, config, windows, indexes)
    num_rows = windows.rows_before(0, 1)[:, 1].tolist()
    batches: list[Batch] = []
    for number, bucket in enumerate(buckets(config)):
        row_block, columns = (slice(None), slice(None)) if block is None else block(bucket)
        key = derive_key(config.seed, "held-out", bucket.length, int(bucket.packed))
        for rows in _pick(num_rows[number], num_batches_per_bucket, rows_per_step(bucket, config), key):
            arrays = reader.read(number, reader.place(number, rows[row_block]), columns)
            batches.append({"step": len(batches), "length": bucket.length, "packed": bucket.packed, **arrays})
    return batches


def _pick(num_rows: int, num_batches: int, size: int, key: int) -> Iterator[np.ndarray]:
    """Yield the rows of each batch, int64[size], FILLING at the end of the last."""
    wanted = min(num_rows, num_batches * size)
    picked = permute(np.arange(wanted), num_rows, key)
    for first in range(0, wanted, size):
        rows = np.full(size, FILLING)
        rows[: wanted - first] = picked[first : first + size]
        yield rows
