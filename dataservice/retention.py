"""How much of a store stays behind training: shards that no step from a checkpoint on reads are removed."""

from contextlib import suppress

import numpy as np

from dataservice.config import DataConfig
from dataservice.errors import DataError
from dataservice.identity import schedule_digest
from dataservice.indexes import index_name, rows_name
from dataservice.schedule import Schedule
from dataservice.store import Store
from dataservice.store.removal import Removal, remove_shard

__all__ = ["Retention"]


class Retention:
    """Removes shards of a run's own store, by `config.keep_windows`; without it, does nothing.

    A row that did not fill a batch in its window comes in a later one, perhaps many windows on, so a window is not
    done with when its last step is. What must stay is known from the schedule alone: the windows from a checkpoint's
    own on, and the shards of the rows that lay over at its start. Those are less than a batch of each length, however
    long the stream is.
    """

    def __init__(self, store: Store, config: DataConfig, schedule: Schedule, *, removes: bool = True) -> None:
        """`removes`: of several processes that read a store one removes; the others let go of what it removes."""
        self._store = store
        self._config = config
        self._schedule = schedule
        self._removes = removes
        self._digest = schedule_digest(config)
        self._last = Removal.read(store.path)
        # Only what this process has removed is known to be gone: an earlier one may have been killed on the way.
        self._gone: set[int] = set()

    def refuse_passed(self, step: int) -> None:
        """Raises DataError when a shard that steps from `step` on read was removed."""
        if self._last is None:
            return
        if self._last.schedule != self._digest or self._first_shard(step) < self._last.shards:
            raise DataError(
                f"store {self._store.path} must hold the windows of step {step}, got its first {self._last.shards} "
                "shards removed behind training (data.keep_windows); go on from a later checkpoint, or delete the "
                "store and run again, and it is made anew"
            )

    def release(self, step: int) -> None:
        """Removes what no checkpoint from the one after `step` steps on reads, but for the last `keep_windows`."""
        if self._config.keep_windows is None:
            return
        first = self._first_shard(step)
        if first <= (0 if self._last is None else self._last.shards):
            return
        self._last = self._removal(first)
        if self._removes:
            # First of all: what is missing must be known to be.
            self._last.write(self._store.path)
            for shard in set(range(first)) - set(self._last.kept) - self._gone:
                self._remove(shard)
        self._store.drop_maps()

    def _first_shard(self, step: int) -> int:
        """The first shard of the oldest window that stays when `step` steps are taken."""
        # By the last step taken: the window of the next one may not be there yet, and is not waited for.
        position = self._schedule.locate(max(step - 1, 0))
        window = len(self._schedule.windows) - 1 if position is None else position.window
        return self._schedule.windows.bounds(max(0, window - (self._config.keep_windows or 0)))[0]

    def _removal(self, first: int) -> Removal:
        windows = self._schedule.windows
        left_over = self._schedule.left_over(first // self._config.window_shards)
        kept = [windows.find_shards(bucket, rows)[0] for bucket, rows in enumerate(left_over)]
        packed_rows = windows.rows_in(first)[-1] if self._schedule.buckets[-1].packed else np.empty(0, np.int64)
        return Removal(
            schedule=self._digest,
            shards=first,
            kept=tuple(np.unique(np.concatenate(kept)).tolist()),
            rows=rows_name(self._config),
            packed_rows=tuple(packed_rows.tolist()),
        )

    def _remove(self, shard: int) -> None:
        remove_shard(self._store.path, self._store.shards.names[shard])
        with suppress(OSError):
            for folder in (self._store.path / "indexes").iterdir():
                (folder / index_name(self._store.shards, shard)).unlink(missing_ok=True)
        self._gone.add(shard)
