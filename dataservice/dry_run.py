"""The whole curriculum of a config over a store, before anything is trained."""

from collections.abc import Iterator

import numpy as np

from dataservice.buckets import rows_per_step
from dataservice.config import DataConfig
from dataservice.identity import open_schedule
from dataservice.store import Store

__all__ = ["curriculum_lines"]

_PARTS_OF_A_CYCLE = 10


def curriculum_lines(store: Store, config: DataConfig, *, every: int = 0) -> Iterator[str]:
    """Yield a header and then a line for `every` steps of all epochs (0: for a tenth of a cycle).

    A line says which steps it is about, their epoch, window and cycle, the mean length of their sequences (rows, also
    where several documents share one) and the number of steps of each length, longest first. Waits for the whole store.
    """
    schedule = open_schedule(store, config)
    names = [f"{bucket.length:,}{' packed' if bucket.packed else ''}" for bucket in schedule.buckets]
    yield _format_line(["steps", "epoch", "window", "cycle", "mean length", *names])
    rows = np.array([rows_per_step(bucket, config) for bucket in schedule.buckets])
    for cycle in schedule.cycles():
        size = every or max(1, -(-len(cycle.buckets) // _PARTS_OF_A_CYCLE))
        for first in range(0, len(cycle.buckets), size):
            counts = np.bincount(cycle.buckets[first : first + size], minlength=len(rows))
            mean = int(counts.sum()) * config.tokens_per_step / int(counts @ rows)
            begin = cycle.first_step + first
            end = begin + int(counts.sum()) - 1
            place = [f"{begin:,} to {end:,}" if end > begin else f"{begin:,}"]
            place += [str(number) for number in (cycle.epoch, cycle.window, cycle.cycle)]
            yield _format_line([*place, f"{mean:,.1f}", *(f"{count:,}" for count in counts.tolist())])


def _format_line(cells: list[str]) -> str:
    first, *others = cells
    return f"{first:<24}" + "".join(f"{cell:>13}" for cell in others)
