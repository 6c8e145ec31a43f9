"""What a run gives: held-out loss against tokens and seconds, and where it reaches a loss."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.decomposition.held_out import read_results
from benchmarks.decomposition.jobs import RETRIEVAL

__all__ = [
    "Curve",
    "Reached",
    "RunRecord",
    "Shape",
    "bucket_seconds",
    "late_loss",
    "longest",
    "make_curve",
    "reach",
    "read_retrieval",
    "read_run",
]


class Shape(NamedTuple):
    """Rows of a step: steps of one shape are the same executable in every arm."""

    length: int
    packed: bool


def longest(shapes: Iterable[Shape]) -> Shape:
    """The shape that others are compared with: of the longest rows, without segments if there are such."""
    return max(shapes, key=lambda shape: (shape.length, not shape.packed))


class RunRecord(NamedTuple):
    """What a run has left on disk."""

    shapes: list[Shape]
    """Of each step."""
    step_seconds: np.ndarray
    """float64[steps]: wall time of each step; compiling, saving and evaluation are not in it."""
    tokens: np.ndarray
    """int64[steps]: targets seen with each step."""
    losses: list[float]
    """Of training, NaN in steps that were skipped."""
    evaluations: list[dict[str, Any]]
    """Rows of held_out.jsonl."""
    retrieval: dict[str, float]
    """Means of long-context measures by `task measure`."""


class Curve(NamedTuple):
    """Held-out loss at the steps that were evaluated; float64[evaluations] each."""

    tokens: np.ndarray
    seconds: np.ndarray
    """Of steps, each counted with what a step of its shape takes."""
    wall: np.ndarray
    """Of steps as they were measured in this run."""
    losses: np.ndarray


class Reached(NamedTuple):
    """Where a loss is reached; infinite where it never is."""

    tokens: float
    seconds: float
    wall: float


def read_run(folder: Path) -> RunRecord | None:
    """What is there of a run; None of one that has not taken a step or was not evaluated."""
    from training.metrics import read_rows

    rows = [row for row in read_rows(folder / "metrics.jsonl") if "length" in row]
    evaluations = read_results(folder)
    if not rows or not evaluations:
        return None
    return RunRecord(
        [Shape(row["length"], row["packed"]) for row in rows],
        np.diff([0.0, *(row["seconds"] for row in rows)]),
        np.array([row["tokens"] for row in rows], np.int64),
        [row.get("loss", float("nan")) for row in rows],
        evaluations,
        read_retrieval(folder / RETRIEVAL),
    )


def read_retrieval(path: Path) -> dict[str, float]:
    """Of what `python -m evaluation longcontext --json` has written, the means over all depths; {} of no file."""
    if not path.exists():
        return {}
    (found,) = json.loads(path.read_text(encoding="utf-8"))["models"]
    values: defaultdict[str, list[float]] = defaultdict(list)
    for cell in found["cells"]:
        values[f"{cell['task']} {cell['measure']}"] += cell["values"]
    return {name: mean(each) for name, each in values.items()}


def bucket_seconds(runs: Iterable[RunRecord]) -> dict[Shape, list[float]]:
    """Medians of each shape's steps, one of each run that has it."""
    medians: defaultdict[Shape, list[float]] = defaultdict(list)
    for run in runs:
        for shape in sorted(set(run.shapes)):
            medians[shape].append(_steady(run.step_seconds[[each == shape for each in run.shapes]].tolist()))
    return dict(medians)


def _steady(seconds: list[float]) -> float:
    """The median without the first step, which touches memory for the first time."""
    return median(seconds[1:] or seconds)


def make_curve(run: RunRecord, seconds: Mapping[Shape, float]) -> Curve:
    """The curve of a run; `seconds` are of a step of each shape.

    What else a machine does weighs on single runs. Steps of a shape are the same program in all of them, so the time
    of a run is reckoned as the number of its steps of each shape times one time for all.
    """
    steps = np.array([row["step"] for row in run.evaluations])
    of_steps = np.cumsum([seconds[shape] for shape in run.shapes])
    losses = np.array([np.nan if row["loss"] is None else row["loss"] for row in run.evaluations], np.float64)
    return Curve(
        run.tokens[steps - 1].astype(float), of_steps[steps - 1], np.cumsum(run.step_seconds)[steps - 1], losses
    )


def reach(curve: Curve, loss: float) -> Reached:
    """Where the curve first comes down to a loss, on the straight line between two evaluations.

    A curve that begins below it has reached it at its first evaluation, at the latest.

    >>> two = Curve(*(np.array(x) for x in ([10.0, 20.0], [1.0, 3.0], [2.0, 4.0], [5.0, 4.0])))
    >>> reach(two, 4.5)
    Reached(tokens=15.0, seconds=2.0, wall=3.0)
    """
    below = np.flatnonzero(curve.losses <= loss)
    if not len(below):
        return Reached(*[float("inf")] * 3)
    last = int(below[0])
    if last == 0:
        return Reached(*(float(axis[0]) for axis in curve[:3]))
    high, low = curve.losses[last - 1], curve.losses[last]
    share = 1.0 if np.isnan(high) else (high - loss) / (high - low)
    return Reached(*(float(axis[last - 1] + share * (axis[last] - axis[last - 1])) for axis in curve[:3]))


def late_loss(positions: Sequence[Sequence[float]], first: int) -> float:
    """Nats per token at positions from `first`, a power of two, of the documents; NaN where there are none."""
    nats = sum(nll for start, nll, _ in positions if start >= first)
    count = sum(number for start, _, number in positions if start >= first)
    return nats / count if count else float("nan")
