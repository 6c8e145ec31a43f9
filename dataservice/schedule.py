"""The schedule: which rows every step takes, as a pure function of windows, settings, seed and step."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dataservice.buckets import buckets, rows_per_step
from dataservice.config import DataConfig
from dataservice.curriculum import arrange, bucket_odds, bucket_stages
from dataservice.errors import DataError
from dataservice.hashing import derive_key
from dataservice.mixture import rows_taken
from dataservice.permutation import permute
from dataservice.windows import FILLING, Windows

__all__ = ["CycleSteps", "Position", "Schedule"]


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a step is: `bucket` indexes `buckets(config)`, `batch` counts the bucket's batches in the epoch."""

    epoch: int
    window: int
    cycle: int
    bucket: int
    batch: int


@dataclass(frozen=True, kw_only=True, eq=False)
class CycleSteps:
    """The steps of one cycle: `buckets` holds the bucket of each, from `first_step` on; int64[steps]."""

    epoch: int
    window: int
    cycle: int
    first_step: int
    buckets: np.ndarray


class _Cycle(NamedTuple):
    first_step: int  # within the epoch
    first_batch: np.ndarray  # int64[buckets]
    bucket: np.ndarray  # int16[steps]
    number: np.ndarray  # int64[steps], among the cycle's batches of that bucket


class Schedule:
    """Steps of `config` over `windows`; asking for a step makes windows known up to its own and no further.

    An epoch's rows of a bucket form a stream: window after window, each in the order of a keyed permutation. Batch j
    is rows [j r, (j + 1) r) of the stream. Cycle c of a window with N rows ends floor(N (c + 1) / cycles) rows into
    it and has the batches that are complete by then, so what is left over flows into the next cycle, and from a
    window into the next; the last cycle of an epoch also has the incomplete batch. Within a cycle the batches come in
    the order of the curriculum. State kept here is cache only.
    """

    def __init__(self, windows: Windows, config: DataConfig) -> None:
        self.config = config
        self.buckets = buckets(config)
        self.windows = windows
        # sizes: (buckets,) rows of a batch
        self._sizes = np.array([rows_per_step(bucket, config) for bucket in self.buckets])
        # taken: (buckets, W + 1) rows that an epoch takes before each window; steps: (W + 1,) its steps before each
        self._taken = np.zeros((len(self.buckets), len(windows) + 1), dtype=np.int64)
        self._steps = np.zeros(len(windows) + 1, dtype=np.int64)
        self._num_known = 0
        self._cycle = lru_cache(maxsize=2)(self._make_cycle)
        self._located: CycleSteps | None = None
        self._cycle_ends = lru_cache(maxsize=2)(self._find_cycle_ends)

    def steps_per_epoch(self) -> int:
        """Return the steps of an epoch; makes every window known. Raises `DataError` when there are none."""
        self._learn(len(self.windows) - 1)
        steps = int(self._steps[-1])
        if not steps and self.windows.rows_before(0, len(self.windows)).any():
            raise DataError(f"data.mixture must take a row or more, got {self.config.mixture}; take more tokens")
        if not steps:
            thing = "document" if self.config.sequences == "decomposed" else "shard"
            wanted = "a document" if self.config.tails == "pack" else f"a {thing} of {self.config.lengths[0]} tokens"
            raise DataError(f"the store must hold {wanted} or more, got none; prepare more documents")
        return steps

    def rows_per_epoch(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows in the store, rows that an epoch takes) of each bucket; makes every window known."""
        self._learn(len(self.windows) - 1)
        return self.windows.rows_before(0, len(self.windows))[:, -1], self._taken[:, -1]

    def num_steps(self, epochs: int | None = None) -> int:
        """Return the steps of so many epochs (None: of all that are configured); makes every window known."""
        return (self.config.epochs if epochs is None else epochs) * self.steps_per_epoch()

    def cycles(self) -> Iterator[CycleSteps]:
        """Yield the cycles of all configured epochs, in order; makes every window known."""
        steps = self.steps_per_epoch()
        for epoch in range(self.config.epochs):
            for window in range(len(self.windows)):
                for cycle in range(self.config.cycles):
                    order = self._cycle(epoch, window, cycle)
                    first_step = epoch * steps + order.first_step
                    yield CycleSteps(
                        epoch=epoch, window=window, cycle=cycle, first_step=first_step, buckets=order.bucket
                    )

    def locate(self, step: int) -> Position | None:
        """Return where `step` is, counted from 0, or None when it is after the last epoch."""
        if step < 0:
            raise DataError(f"step must be 0 or more, got {step}; the first step is 0")
        # Steps come one after the other, mostly of the cycle that the last one was of.
        found = self._located
        if found is None or not 0 <= step - found.first_step < len(found.buckets):
            found = self._located = self.cycle_of(step)
        if found is None:
            return None
        order, at = self._cycle(found.epoch, found.window, found.cycle), step - found.first_step
        bucket = int(order.bucket[at])
        batch = int(order.first_batch[bucket] + order.number[at])
        return Position(epoch=found.epoch, window=found.window, cycle=found.cycle, bucket=bucket, batch=batch)

    def cycle_of(self, step: int) -> CycleSteps | None:
        """Return the cycle that has `step`, counted from 0, or None when that is after the last epoch."""
        while step >= self._steps[self._num_known] and self._num_known < len(self.windows):
            self._learn(self._num_known)
        epoch, first_step = 0, 0
        if step >= self._steps[self._num_known]:
            epoch, step = divmod(step, self.steps_per_epoch())
            if epoch >= self.config.epochs:
                return None
            first_step = epoch * self.steps_per_epoch()
        window = int(np.searchsorted(self._steps[: self._num_known + 1], step, side="right")) - 1
        ends = self._cycle_ends(window)
        steps_after = self._steps[window] + (ends[:, 1:] - ends[:, :1]).sum(axis=0)
        cycle = int(np.searchsorted(steps_after, step, side="right"))
        order = self._cycle(epoch, window, cycle)
        first_step += order.first_step
        return CycleSteps(epoch=epoch, window=window, cycle=cycle, first_step=first_step, buckets=order.bucket)

    def rows(self, position: Position, num_batches: int = 1) -> np.ndarray:
        """Return the rows of the batch at `position`, numbered within the bucket in store order; int64[n, rows].

        Where the stream of the epoch has ended stands FILLING. With `num_batches` come up to so many batches of the
        bucket from this one on, as far as known windows up to the position's own reach.
        """
        size = int(self._sizes[position.bucket])
        complete = int(self._taken[position.bucket, position.window + 1]) // size
        count = max(1, min(num_batches, complete - position.batch))
        first = position.batch * size
        rows = self._stream(position.epoch, position.bucket, first, first + count * size, position.window)
        return rows.reshape(count, size)

    def left_over(self, window: int) -> list[np.ndarray]:
        """Return the rows of each bucket, in the windows before this one, that no step before it takes (epoch 0)."""
        ends = self._taken[:, window]
        firsts = ends // self._sizes * self._sizes
        return [
            self._stream(0, bucket, first, stop, window - 1)
            for bucket, (first, stop) in enumerate(zip(firsts.tolist(), ends.tolist(), strict=True))
        ]

    def _stream(self, epoch: int, bucket: int, first: int, stop: int, last_window: int) -> np.ndarray:
        """Return the rows [first, stop) of a bucket's stream, whose windows end with `last_window`; int64."""
        taken = self._taken[bucket, : last_window + 2]
        rows = np.full(stop - first, FILLING, dtype=np.int64)
        window = int(np.searchsorted(taken, first, side="right")) - 1
        while window <= last_window and taken[window] < stop:
            before, after = int(taken[window]), int(taken[window + 1])
            begin, end = max(first, before), min(stop, after)
            if begin < end:
                shuffled = self._shuffled(epoch, window, bucket, begin - before, end - before)
                rows[begin - first : end - first] = shuffled
            window += 1
        return rows

    def _shuffled(self, epoch: int, window: int, bucket: int, first: int, stop: int) -> np.ndarray:
        """Return rows [first, stop) of a window's stream, which goes through the window anew each time it ends."""
        start, end = (int(edge) for edge in self.windows.rows_before(window, window + 1)[bucket])
        size = end - start
        length, packed = self.buckets[bucket]
        passes = []
        for number in range(first // size, -(-stop // size)):
            key = derive_key(self.config.seed, "rows", epoch, window, length, int(packed), number)
            numbers = np.arange(max(first - number * size, 0), min(stop - number * size, size))
            passes.append(start + permute(numbers, size, key))
        return np.concatenate(passes)

    def _learn(self, window: int) -> None:
        """Make windows known up to this one, and count the steps of an epoch before each."""
        if window < self._num_known:
            return
        self.windows.learn(window if self.config.mixture == "natural" else len(self.windows) - 1)
        first, last = self._num_known, self.windows.num_known
        before = self.windows.rows_before(first, last)
        self._taken[:, first : last + 1] = rows_taken(before, self.windows, self.config)
        batches = self._taken[:, first : last + 1] // self._sizes[:, None]
        self._steps[first : last + 1] = batches.sum(axis=0)
        if last == len(self.windows):
            self._steps[last] = (-(-self._taken[:, last] // self._sizes)).sum()
        self._num_known = last

    def _find_cycle_ends(self, window: int) -> np.ndarray:
        """Return the batches of each bucket before a window and after each cycle; int64[buckets, cycles + 1]."""
        before, after = self._taken[:, window, None], self._taken[:, window + 1, None]
        shares = np.arange(self.config.cycles + 1)
        ends = (before + (after - before) * shares // self.config.cycles) // self._sizes[:, None]
        if window == len(self.windows) - 1:
            ends[:, -1] = -(-after[:, 0] // self._sizes)
        return ends

    def _curriculum(self, epoch: int, window: int, cycle: int) -> str | tuple[float, ...]:
        config = self.config
        if config.warmup_curriculum is not None and epoch == window == cycle == 0:
            return config.warmup_curriculum
        is_last = window == len(self.windows) - 1 and cycle == config.cycles - 1
        return config.cooldown_curriculum if config.cooldown_curriculum is not None and is_last else config.curriculum

    def _make_cycle(self, epoch: int, window: int, cycle: int) -> _Cycle:
        """Return the order of the batches of a cycle."""
        ends = self._cycle_ends(window)
        batches = ends[:, cycle + 1] - ends[:, cycle]
        first_step = int(self._steps[window] + (ends[:, cycle] - ends[:, 0]).sum())
        # Odds in proportion to batches prefer no batch to another.
        by_batches = self.config.odds_times == "batches" or self.config.sequences != "decomposed"
        odds = bucket_odds(self.config, self._curriculum(epoch, window, cycle)) * (batches if by_batches else 1)
        key = derive_key(self.config.seed, "cycle", epoch, window, cycle)
        return _Cycle(first_step, ends[:, cycle], *arrange(batches, odds, key, bucket_stages(self.config)))
