"""Plots of what is measured of tokenizers, as SVG text: arrays in, text out.

Every function takes a title and series by name (of a tokenizer, most often); a series keeps its colour from plot to
plot when the order of names is the same.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tokenizer.measures.drawing import COLOURS, INK, draw, label_number, ordered_colours, use_log_axis
from tokenizer.measures.spelling import show_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_bars",
    "plot_density",
    "plot_histogram",
    "plot_lines",
    "plot_name_parts",
    "plot_probabilities",
    "plot_pruning",
]

BAR_INCHES = 0.11
MOST_BARS = 30  # of a histogram: more would be hairlines
MOST_POINTS = 400  # of a line: more cannot be told apart
MERGES_BINS, VALUE_BINS = 64, 28
FEW_TICKS = 8
DENSITIES = (0.08, 0.18, 0.32, 0.5, 0.7, 0.9)  # opacity from one merge in a cell to the fullest cell


def plot_bars(
    title: str, groups: Sequence[str], series: Mapping[str, Sequence[float] | np.ndarray], *, label: str = ""
) -> str:
    """Horizontal bars: for each group (a language), one of each series (a tokenizer), in the order given.

    Args:
        title: Of the plot.
        groups: Names from top to bottom.
        series: As many values as groups each; NaN for none.
        label: What the values are.
    """
    thickness = 0.8 / max(1, len(series))

    def paint(axes: "Axes") -> None:
        places = np.arange(len(groups))
        for index, values in enumerate(series.values()):
            offsets = places - 0.4 + thickness * (index + 0.5)
            axes.barh(offsets, np.asarray(values, float), thickness * 0.9, color=_colour(index))
        axes.set_yticks(places, [show_text(group) for group in groups])
        axes.set_ylim(len(groups) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_formatter(label_number)

    bars = len(groups) * max(1.7, len(series) + 0.8)
    return draw(title, paint, names=series, x_label=label, height=1.2 + BAR_INCHES * bars + 0.12 * len(series))


def plot_histogram(
    title: str, histograms: Mapping[str, np.ndarray], *, label: str = "", count_label: str = "tokens", first: int = 0
) -> str:
    """How many have each whole number: `histograms[name][n]` of them have n (int64[numbers]); shown from `first` on.

    Up to MOST_BARS numbers are bars; more are points on logarithmic axes, from 1 on.
    """
    length = max((len(histogram) for histogram in histograms.values()), default=0)
    if length - first > MOST_BARS:
        series = {}
        for name, histogram in histograms.items():
            numbers = np.arange(1, len(histogram))[np.asarray(histogram)[1:] > 0]
            series[name] = (numbers, np.asarray(histogram)[numbers])
        return plot_lines(title, series, x_label=label, y_label=count_label, log="xy", marks=True)
    thickness = 0.84 / max(1, len(histograms))

    def paint(axes: "Axes") -> None:
        from matplotlib.ticker import MaxNLocator

        for index, histogram in enumerate(histograms.values()):
            numbers = np.arange(first, len(histogram))
            places = numbers - 0.42 + thickness * (index + 0.5)
            axes.bar(places, np.asarray(histogram)[first:], thickness, color=_colour(index))
        if any(np.any(np.asarray(histogram)[first:]) for histogram in histograms.values()):
            use_log_axis(axes, "y")
        axes.set_xlim(first - 0.6, max(length, first + 1) - 0.4)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False, axis="x")

    return draw(title, paint, names=histograms, x_label=label, y_label=count_label)


def plot_name_parts(histograms: Mapping[str, np.ndarray]) -> str:
    """Figure 3 of the SA-BPE paper: how many tokens have how many name parts; `histogram[n]` of them have n."""
    return plot_histogram("Parts of names in the vocabulary", histograms, label="parts of a name", first=1)


def plot_lines(
    title: str,
    series: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    x_label: str = "",
    y_label: str = "",
    log: str = "",
    marks: bool | Collection[str] = False,
    is_ordered: bool = False,
) -> str:
    """Lines through (x, y) each.

    Args:
        title: Of the plot.
        series: (x, y), float64[points] each, x rising; of many points, MOST_POINTS are drawn.
        x_label: What x is.
        y_label: What y is.
        log: Axes that are logarithmic: "", "x", "y" or "xy".
        marks: Mark the points, of all series or of those named.
        is_ordered: The series have an order, which their colours show.
    """
    marked = marks if isinstance(marks, Collection) else series if marks else ()
    colours = ordered_colours(len(series)) if is_ordered else COLOURS

    def paint(axes: "Axes") -> None:
        for index, (name, (x, y)) in enumerate(series.items()):
            chosen = _spread(np.asarray(x, float), is_log="x" in log)
            points = np.asarray(x)[chosen], np.asarray(y)[chosen]
            colour, marker = colours[index % len(colours)], "o" if name in marked else ""
            axes.plot(*points, color=colour, linewidth=1.6, marker=marker, ms=3)
        if any(len(x) for x, _ in series.values()):
            use_log_axis(axes, *log)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(label_number)

    return draw(title, paint, names=series, colours=colours, x_label=x_label, y_label=y_label)


def plot_pruning(curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """Figure 4 of the SA-BPE paper: (tokens in the vocabulary, bytes per token) of each way of pruning."""
    title, size = "Compression of the pruned vocabulary", "tokens in the vocabulary"
    return plot_lines(title, curves, x_label=size, y_label="bytes per token", marks=True)


def plot_probabilities(probabilities: Mapping[str, np.ndarray], *, title: str = "Probability of tokens by rank") -> str:
    """Figure 6 of the SA-BPE paper: token probabilities, falling, over rank; both axes logarithmic.

    Args:
        probabilities: float64[tokens] each, falling (`tokenizer.measures.probabilities`); zeros are left out.
        title: Of the plot.
    """
    series = {}
    for name, values in probabilities.items():
        values = np.asarray(values)[np.asarray(values) > 0]
        series[name] = (np.arange(1, len(values) + 1), values)
    return plot_lines(title, series, x_label="rank of the token", y_label="probability", log="xy")


def plot_density(title: str, values: np.ndarray, *, label: str, colour: int = 0) -> str:
    """Figure 2 of the SA-BPE paper: merge number against R (or L), the darker the more merges lie there.

    Args:
        title: Of the plot.
        values: int64[merges], at least 0, in the order of merges; the axis is log(1 + value).
        label: What the values are.
        colour: Number of the series, for its colour.
    """
    values = np.asarray(values, np.int64)
    heights = np.log1p(values)
    x_edges = np.linspace(0, max(1, len(values)), min(MERGES_BINS, max(1, len(values))) + 1)
    y_edges = _value_edges(int(values.min(initial=1)), int(values.max(initial=1)))
    # counts: (merges, heights)
    counts, _, _ = np.histogram2d(np.arange(len(values)) + 0.5, heights, bins=(x_edges, y_edges))

    def paint(axes: "Axes") -> None:
        _paint_cells(axes, counts, x_edges, y_edges, _colour(colour))
        if len(values):
            axes.plot(*_running_median(heights), color=INK, linewidth=1.4)
        ticks = _choose_ticks(y_edges[0], y_edges[-1])
        axes.set_yticks(np.log1p(ticks), [label_number(tick) for tick in ticks])
        axes.set_xlim(x_edges[0], x_edges[-1])
        axes.set_ylim(y_edges[0], y_edges[-1])
        axes.xaxis.set_major_formatter(label_number)

    return draw(title, paint, x_label="merge", y_label=label)


def _value_edges(least: int, most: int) -> np.ndarray:
    """Edges of cells between least and most on the scale log(1 + value), each between two whole numbers."""
    evenly = np.expm1(np.linspace(np.log1p(least), np.log1p(most + 1), VALUE_BINS + 1))
    return np.log1p(np.unique(np.round(evenly)) - 0.5)


def _choose_ticks(low: float, high: float) -> list[int]:
    """1, 2, 5, 10, ... on the scale log(1 + value), or 1, 3, 10, ... where these would be many."""
    for digits in ((2, 5, 10), (3, 10)):
        numbers = (0, 1, *(digit * 10**power for power in range(18) for digit in digits))
        ticks = [number for number in numbers if low <= np.log1p(number) <= high]
        if len(ticks) <= FEW_TICKS:
            break
    return ticks


def _paint_cells(axes: "Axes", counts: np.ndarray, x_edges: np.ndarray, y_edges: np.ndarray, colour: str) -> None:
    """Fill cells in a few degrees of opacity, each one path: a page holds thousands of cells in a few kilobytes."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    most = np.log1p(counts.max(initial=1))
    levels = np.ceil(np.log1p(counts) / most * len(DENSITIES)).astype(int)
    for level, opacity in enumerate(DENSITIES, 1):
        columns, rows = np.nonzero(levels == level)
        if not len(columns):
            continue
        left, right, low, high = x_edges[columns], x_edges[columns + 1], y_edges[rows], y_edges[rows + 1]
        corners = np.stack((left, low, right, low, right, high, left, high, left, low), 1).reshape(-1, 2)
        codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(columns))
        axes.add_patch(PathPatch(Path(corners, codes), facecolor=colour, alpha=opacity, linewidth=0))


def _running_median(heights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Middles and medians of up to MERGES_BINS runs of merges."""
    runs = np.array_split(np.arange(len(heights)), min(MERGES_BINS, len(heights)))
    return np.array([run.mean() for run in runs]), np.array([np.median(heights[run]) for run in runs])


def _spread(x: np.ndarray, *, is_log: bool) -> np.ndarray:
    """Indices (int64) of at most MOST_POINTS of rising x, evenly spread over the axis, with the first and last."""
    if len(x) <= MOST_POINTS:
        return np.arange(len(x))
    scale = np.log(x) if is_log else x
    wanted = np.linspace(scale[0], scale[-1], MOST_POINTS)
    return np.unique(np.searchsorted(scale, wanted).clip(0, len(x) - 1))


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
