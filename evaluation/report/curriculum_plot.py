"""Which length each step took: Figure 6 of Dataset Decomposition (arXiv 2405.13226) for a run of ours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tokenizer.measures.drawing import draw, label_number, ordered_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MOST_COLUMNS", "plot_curriculum", "shares_over_steps"]

MOST_COLUMNS = 240
OPACITIES = (0.25, 0.4, 0.55, 0.7, 0.85, 1.0)  # from few steps of a column to all of them
ROW_INCHES = 0.26


def shares_over_steps(steps: np.ndarray, rows: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of steps by row in up to MOST_COLUMNS stretches of steps.

    Args:
        steps: int64[steps], rising: their numbers.
        rows: int64[steps], in which row each is.
        num_rows: Rows in all.

    Returns:
        (edges float64[columns + 1], shares float64[columns, rows]); a column without steps has none.

    >>> shares_over_steps(np.array([1, 2]), np.array([0, 1]), 2)[1].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    columns = min(MOST_COLUMNS, len(steps))
    edges = np.linspace(steps[0] - 0.5, steps[-1] + 0.5, columns + 1)
    counts, _, _ = np.histogram2d(steps, rows, bins=(edges, np.arange(num_rows + 1) - 0.5))
    return edges, counts / np.maximum(1, counts.sum(axis=1, keepdims=True))


def plot_curriculum(title: str, steps: np.ndarray, rows: np.ndarray, names: Sequence[str]) -> str:
    """Draw the row (a length) of every step over its number, the stronger the larger its share of a stretch of steps.

    Args:
        title: Of the plot.
        steps: int64[steps], rising.
        rows: int64[steps], index into names.
        names: Of the rows, from below.
    """
    edges, shares = shares_over_steps(steps, rows, len(names))
    levels = np.ceil(shares * len(OPACITIES)).astype(int)
    colours = ordered_colours(len(names))

    def paint(axes: "Axes") -> None:
        for row, colour in enumerate(colours):
            _paint_row(axes, edges, levels[:, row], row, colour)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.set_yticks(range(len(names)), list(names))
        axes.grid(visible=False, axis="x")
        axes.xaxis.set_major_formatter(label_number)

    height = 1.0 + ROW_INCHES * max(4, len(names))
    return draw(title, paint, x_label="step", y_label="length", height=height)


def _paint_row(axes: "Axes", edges: np.ndarray, levels: np.ndarray, row: int, colour: str) -> None:
    """Fill the cells of one row (int[columns], 0 for none), neighbours of the same level as one; a path a level."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    bounds = np.flatnonzero(np.diff(levels, prepend=-1, append=-1))
    for level, opacity in enumerate(OPACITIES, 1):
        chosen = [at for at in range(len(bounds) - 1) if levels[bounds[at]] == level]
        if not chosen:
            continue
        left, right = edges[bounds[chosen]], edges[bounds[np.array(chosen) + 1]]
        low, high = np.full(len(chosen), row - 0.42), np.full(len(chosen), row + 0.42)
        corners = np.stack((left, low, right, low, right, high, left, high, left, low), 1).reshape(-1, 2)
        codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(chosen))
        axes.add_patch(PathPatch(Path(corners, codes), facecolor=colour, alpha=opacity, linewidth=0))
