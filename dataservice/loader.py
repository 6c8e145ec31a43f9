"""The loader: a grain dataset whose elements are whole batches, and whose state is a step and two digests."""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import grain
import numpy as np
from grain.experimental import ThreadPrefetchDatasetIterator

from dataservice.buckets import Bucket, rows_per_step
from dataservice.config import DataConfig
from dataservice.errors import DataError, WaitCancelledError
from dataservice.identity import open_schedule, prefix_digest, schedule_digest
from dataservice.indexes import RowIndexes
from dataservice.locating import as_store
from dataservice.reading import Places, RowReader
from dataservice.schedule import Position
from dataservice.store import Store
from dataservice.store.retrying import while_wanted
from tokenizer.allocation import keep_freed_memory

__all__ = ["Batch", "BatchDataset", "Block", "batches"]

Batch = dict[str, Any]
"""step, length, packed and the arrays of `RowReader.read`."""

Block = Callable[[Bucket], tuple[slice, slice]]
"""The rows and columns of a bucket's global batch that this process holds."""

# Rows whose order is computed and which are looked up in one call: short calls would cost more than the reading. Of
# long rows fewer, since nobody needs to know hours ahead.
_ROWS_AHEAD, _TOKENS_AHEAD = 1 << 16, 1 << 26

_STATE_FIELDS = {"step", "data", "schedule"}


def batches(
    store: Store | str | Path,
    config: DataConfig,
    *,
    start_step: int = 0,
    num_steps: int | None = None,
    block: Block | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> grain.IterDataset:
    """Return the batches of `num_steps` steps from `start_step` on (None: to the end of the last epoch).

    An element is a dict: step, length and packed (int, int, bool); inputs and targets, uint16 or uint32 (rows,
    length); and weights, float32 (rows,), 0 for rows that fill the last batch; or in packed batches, instead,
    segments, int32 (rows, length), 1, 2, ... for each tail and 0 for padding, which has no loss. `block` picks the
    rows and columns of the global batch that this process holds (None: all). Made `config.prefetch` batches ahead by
    a thread; close the iterator when done. Where the next window is still in the making, or servers are away, the
    batches end as soon as `is_stopped` is true, which is safe to become so in a handler of signals.
    """
    if not isinstance(config, DataConfig):
        raise DataError(f"config must be a DataConfig, got {config!r}; DataConfig() has the defaults")
    dataset = BatchDataset(
        as_store(store, config), config, start_step=start_step, num_steps=num_steps, block=block, is_stopped=is_stopped
    )
    return PrefetchDataset(dataset) if config.prefetch else dataset


class BatchDataset(grain.IterDataset):
    """The batches of a run, made when asked for; see `batches`."""

    def __init__(
        self,
        store: Store,
        config: DataConfig,
        *,
        start_step: int = 0,
        num_steps: int | None = None,
        block: Block | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self.store = store
        self.config = config
        for name, value in (("start_step", start_step), ("num_steps", num_steps or 0)):
            if not isinstance(value, int | np.integer) or value < 0:
                raise DataError(
                    f"{name} must be a whole number of steps, at least 0, got {value!r}; steps count from 0"
                )
        self.start_step = start_step
        self.end_step = None if num_steps is None else start_step + num_steps
        self.block = block
        self.is_stopped = is_stopped

    def __iter__(self) -> "BatchIterator":
        return BatchIterator(self)

    def __reduce__(self) -> NoReturn:
        """Not for other processes: each would make all batches, and memory maps are read faster by threads."""
        raise DataError("batches must be made in this process, got mp_prefetch or a copy; set data.prefetch instead")


class PrefetchDataset(grain.IterDataset):
    """The batches of a dataset, made ahead by a thread."""

    def __init__(self, batches: BatchDataset) -> None:
        super().__init__(batches)
        self._batches = batches

    def __iter__(self) -> "PrefetchIterator":
        return PrefetchIterator(iter(self._batches), self._batches.config.prefetch)


class PrefetchIterator(ThreadPrefetchDatasetIterator):
    """grain's iterator, which would wait for its thread while that waits for a window."""

    def __init__(self, batches: "BatchIterator", size: int) -> None:
        # First of all: an iterator whose making fails is closed too.
        self._batches = batches
        super().__init__(batches, prefetch_buffer_size=size)

    def close(self) -> None:
        """End the thread, also one that waits for a window."""
        self._batches.close()
        super().close()

    def __del__(self) -> None:
        if _close_unless_finalizing is not None:  # as late as that, Python has emptied this module
            _close_unless_finalizing(self)


class BatchIterator(grain.DatasetIterator):
    """Iterator over a `BatchDataset`; its state is {"step", "data", "schedule"}: the next step and two digests."""

    def __init__(self, dataset: BatchDataset) -> None:
        super().__init__()
        # Batches come and go, and the page faults of mapping each one's arrays anew cost as much as making them.
        keep_freed_memory()
        self._dataset = dataset
        self._is_closed = False
        indexes = RowIndexes(dataset.store, dataset.config, is_cancelled=self._is_cancelled)
        self._schedule = open_schedule(dataset.store, dataset.config, indexes)
        self._reader = RowReader(dataset.store, dataset.config, self._schedule.windows, indexes)
        self._schedule_digest = schedule_digest(dataset.config)
        self._step = dataset.start_step
        # For each bucket, the batches that were looked up ahead: (epoch, number of the first, where their rows are),
        # how many were asked for at last, and those that were read ahead.
        self._ahead: dict[int, tuple[int, int, Places]] = {}
        self._asked: dict[int, int] = {}
        self._read: dict[int, tuple[int, int, list[dict[str, np.ndarray]]]] = {}

    def __next__(self) -> Batch:
        if self._is_closed:
            raise ValueError("batches must be asked of an open iterator, got a closed one")
        batch = None
        with suppress(WaitCancelledError), while_wanted(self._is_cancelled):
            batch = self._make_batch()
        if batch is None:
            raise StopIteration
        self._step += 1
        return batch

    def _make_batch(self) -> Batch | None:
        """The batch of the next step; None when there is none."""
        if self._dataset.end_step is not None and self._step >= self._dataset.end_step:
            return None
        position = self._schedule.locate(self._step)
        if position is None:
            return None
        bucket = self._schedule.buckets[position.bucket]
        return {"step": self._step, "length": bucket.length, "packed": bucket.packed, **self._arrays(position)}

    def close(self) -> None:
        """Make no more batches; one that waits for a window is given up."""
        self._is_closed = True
        super().close()

    def __del__(self) -> None:
        if _close_unless_finalizing is not None:  # as late as that, Python has emptied this module
            _close_unless_finalizing(self)

    def _is_cancelled(self) -> bool:
        return self._is_closed or self._dataset.is_stopped()

    def get_state(self) -> dict[str, Any]:
        """Return the next step, the digest of the data that the steps before it used, and that of the schedule."""
        data = prefix_digest(self._dataset.store, self._schedule, self._step)
        return {"step": self._step, "data": data, "schedule": self._schedule_digest}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to a step; raises `DataError` when the state is of other settings or other data."""
        if not _is_state(state):
            fields = ", ".join(sorted(_STATE_FIELDS))
            raise DataError(f"data state must have {fields}, got {state!r}; restore a checkpoint of this loader")
        if state["schedule"] != self._schedule_digest:
            _refuse("schedule", self._schedule_digest, state["schedule"], "restore the data.* settings of the run")
        data = prefix_digest(self._dataset.store, self._schedule, state["step"])
        if state["data"] != data:
            _refuse("data", data, state["data"], "use the store of the run, or start another run")
        self._step = int(state["step"])

    def _block(self, bucket: Bucket) -> tuple[slice, slice]:
        return (slice(None), slice(None)) if self._dataset.block is None else self._dataset.block(bucket)

    def _arrays(self, position: Position) -> dict[str, np.ndarray]:
        """Return the arrays of the batch, reading several batches of the bucket in one call where calls are dear."""
        epoch, first, batches = self._read.get(position.bucket, (-1, 0, []))
        if not batches or (epoch, first) != (position.epoch, position.batch):
            places = self._places(position)
            bucket = self._schedule.buckets[position.bucket]
            size = places.shards.shape[1] * bucket.length * self._dataset.store.dtype.itemsize
            count = max(1, min(len(places.shards), self._dataset.store.bytes_at_once // max(size, 1)))
            _, columns = self._block(bucket)
            flat = Places(*(column[:count].reshape(-1) for column in places))
            arrays = self._reader.read(position.bucket, flat, columns)
            rows = len(flat.shards) // count
            parts = [slice(number * rows, (number + 1) * rows) for number in range(count)]
            batches = [{name: array[part] for name, array in arrays.items()} for part in parts]
        self._read[position.bucket] = (position.epoch, position.batch + 1, batches[1:])
        return batches[0]

    def _places(self, position: Position) -> Places:
        """Return where this process's rows of the batch and of the next ones of the bucket are, (batches, rows)."""
        epoch, first, places = self._ahead.get(position.bucket, (-1, 0, None))
        at = position.batch - first
        if places is None or epoch != position.epoch or not 0 <= at < len(places.shards):
            bucket = self._schedule.buckets[position.bucket]
            # Doubled from one batch on, since every shard that is met for the first time delays the first step.
            rows_ahead = min(_ROWS_AHEAD, _TOKENS_AHEAD // bucket.length)
            most = max(1, rows_ahead // rows_per_step(bucket, self._dataset.config))
            num_batches = self._asked[position.bucket] = min(2 * self._asked.get(position.bucket, 0) or 1, most)
            rows, _ = self._block(bucket)
            places = self._reader.place(position.bucket, self._schedule.rows(position, num_batches)[:, rows])
            self._ahead[position.bucket] = (position.epoch, position.batch, places)
            at = 0
        return Places(places.shards[at:], places.starts[at:])


def _is_state(state: object) -> bool:
    """Whether a state has the fields of one, each of its type."""
    if not isinstance(state, dict) or state.keys() != _STATE_FIELDS:
        return False
    step = state["step"]
    is_step = isinstance(step, int | np.integer) and not isinstance(step, bool) and bool(step >= 0)
    return is_step and isinstance(state["data"], str) and isinstance(state["schedule"], str)


def _refuse(thing: str, expected: str, got: str, remedy: str) -> None:
    raise DataError(f"{thing} digest of the checkpoint must be {expected[:12]}, got {got[:12]}; {remedy}")


def _close_unless_finalizing(
    iterator: PrefetchIterator | BatchIterator, is_finalizing: Callable[[], bool] = sys.is_finalizing
) -> None:
    """Close an iterator that nobody has closed; when Python ends, what closing needs is gone."""
    if not is_finalizing():
        with suppress(AttributeError):  # of an iterator that was never made
            iterator.close()
