"""The length of every step of a run, by its settings and its store; else of those that were logged."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dataservice import DataError, Schedule
from evaluation.report.metric_rows import bucket_key, bucket_of
from tokenizer import Tokenizer, TokenizerError
from training.errors import TrainingError
from training.metrics import Row, bucket_name

__all__ = ["Curriculum", "read_curriculum"]


class Curriculum(NamedTuple):
    """Which length steps took."""

    names: list[str]
    """Lengths of rows, the shortest first; with a p those of packed tails."""
    steps: np.ndarray
    """int64[steps], rising, from 1."""
    rows: np.ndarray
    """int64[steps], of each its index in `names`."""
    is_whole: bool
    """Whether all steps up to the last one are there."""


def read_curriculum(place: Path, logged: list[Row], last_step: int, tokenizer: Tokenizer | None) -> Curriculum:
    """The curriculum of a run up to `last_step`.

    Args:
        place: The run's folder.
        logged: Rows of its steps, in order, one or more.
        last_step: Steps that it has taken.
        tokenizer: Its tokenizer; None where that cannot be opened.
    """
    names_of_logged = [bucket_of(row) for row in logged]
    steps = np.array([row["step"] for row in logged])
    if np.array_equal(steps, np.arange(1, last_step + 1)):
        return _gather(steps, names_of_logged, is_whole=True)
    is_sound = steps.dtype.kind == "i" and steps.min() > 0
    computed = _compute(place, last_step, tokenizer) if is_sound and tokenizer is not None else None
    # Of another store than the run's own, steps would have other lengths.
    if computed is not None and [computed[step - 1] for step in steps.tolist()] == names_of_logged:
        return _gather(np.arange(1, last_step + 1), computed, is_whole=True)
    return _gather(steps, names_of_logged, is_whole=False)


def _gather(steps: np.ndarray, lengths: list[str], *, is_whole: bool) -> Curriculum:
    names = sorted(set(lengths), key=bucket_key)
    numbers = {name: number for number, name in enumerate(names)}
    return Curriculum(names, steps, np.array([numbers[length] for length in lengths]), is_whole)


def _compute(place: Path, num_steps: int, tokenizer: Tokenizer) -> list[str] | None:
    """The length of each step; None where the store is not at hand, or does not reach that far."""
    from dataservice import open_schedule
    from dataservice.indexes import RowIndexes
    from training.config import load_config
    from training.data import find_store

    try:
        config = load_config([str(place / "config.yaml")])
        stores = [config.data.store] if isinstance(config.data.store, str) else config.data.store or ()
        if any("://" in store for store in stores):  # a page is not worth the traffic, nor the wait
            return None
        store = find_store(config, place, tokenizer)
        indexes = RowIndexes(store, config.data, is_cancelled=lambda: True)
        return _lengths_of_steps(open_schedule(store, config.data, indexes), num_steps)
    except (DataError, TokenizerError, TrainingError, OSError):
        return None


def _lengths_of_steps(schedule: Schedule, num_steps: int) -> list[str] | None:
    names = [bucket_name(bucket) for bucket in schedule.buckets]
    lengths: list[str] = []
    while len(lengths) < num_steps:
        cycle = schedule.cycle_of(len(lengths))
        if cycle is None:
            return None
        lengths += [names[bucket] for bucket in cycle.buckets.tolist()]
    return lengths[:num_steps]
