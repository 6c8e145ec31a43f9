"""Curves of a run that a page can hold, however many steps it has."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tokenizer.measures.plots import plot_lines

__all__ = ["MOST_POINTS", "Clock", "Curve", "choose_clock", "plot_curves", "thin"]

Curve = tuple[np.ndarray, np.ndarray]
"""(x, y), float64[points] each, x rising."""

MOST_POINTS = 200
"""Of a curve; where it has more, it becomes means over that many stretches."""


class Clock(NamedTuple):
    """How time is counted on an axis."""

    seconds: float
    label: str


def choose_clock(seconds: float) -> Clock:
    """Count up to `seconds` in seconds, minutes or hours.

    >>> choose_clock(90.0), choose_clock(10_000.0).label
    (Clock(seconds=1.0, label='seconds of training'), 'hours of training')
    """
    for size, name in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return Clock(size, f"{name} of training")
    return Clock(1.0, "seconds of training")


def thin(x: np.ndarray, y: np.ndarray, most: int = MOST_POINTS) -> Curve:
    """Replace a curve of more than `most` points by means over that many stretches of x, those without points left out.

    Args:
        x: float64[points], rising.
        y: float64[points].
        most: Stretches of x, all as wide.

    >>> thin(np.array([0.0, 1.0, 2.0, 9.0]), np.array([4.0, 6.0, 5.0, 1.0]), most=3)
    (array([1., 9.]), array([5., 1.]))
    """
    if len(x) <= most:
        return x, y
    edges = np.linspace(x[0], x[-1], most + 1)
    # stretches: (points,)
    stretches = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, most - 1)
    counts = np.bincount(stretches, minlength=most)
    is_filled = counts > 0
    means = [np.bincount(stretches, weights=values, minlength=most)[is_filled] / counts[is_filled] for values in (x, y)]
    return means[0], means[1]


def plot_curves(
    title: str,
    series: Mapping[str, Curve],
    x_label: str,
    y_label: str,
    *,
    most: int = MOST_POINTS,
    log: str = "",
    is_ordered: bool = False,
    has_marks: bool = False,
) -> str:
    """A plot of curves of at most so many points, or "" where all are empty; one that is keeps its colour."""
    thinned = {name: thin(*curve, most) for name, curve in series.items()}
    if not any(len(x) for x, _ in thinned.values()):
        return ""
    marks = thinned if has_marks else {"held-out"}
    labels = {"x_label": x_label, "y_label": y_label, "log": log}
    return plot_lines(title, thinned, **labels, marks=set(marks), is_ordered=is_ordered)
