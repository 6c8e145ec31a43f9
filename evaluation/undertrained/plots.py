"""The plane of distances, their distribution, and what was known before against them, as SVG text."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from evaluation.undertrained.finding import Undertrained
from tokenizer.measures.drawing import COLOURS, INK, draw, label_number, use_log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_distribution", "plot_history", "plot_plane", "show_indicator"]

MOST_POINTS = 1500
"""Of a kind of tokens: more cannot be told apart, and make a page heavy."""
BINS = 60
KINDS = {"other tokens": COLOURS[0], "candidates": COLOURS[1], "verified": COLOURS[7], "known to be unused": INK}


def plot_plane(found: Undertrained) -> str:
    """Every token by its cosine and Euclidean distance to the unused ones, with these."""
    x, y = found.indicators.cosine, found.indicators.euclidean
    kinds = _kinds(found)
    kinds["known to be unused"] = found.reference.ids[found.reference.ids < len(x)]
    title = f"{found.name}: distances to the unused tokens"
    return _scatter(title, kinds, x, y, x_label="cosine distance", y_label="Euclidean distance")


def plot_history(found: Undertrained, name: str, numbers: np.ndarray) -> str:
    """The indicator over a number known of tokens before, int64[V]; 0 is not shown; over a decade, logarithmic."""
    kinds = {kind: ids[numbers[ids] > 0] for kind, ids in _kinds(found).items()}
    title = f"{found.name}: the indicator over {name}"
    x_label = f"{name} in {found.evidence.scope}" if name == "occurrences" else name
    return _scatter(title, kinds, numbers, found.values, x_label=x_label, y_label=show_indicator(found), log="x")


def plot_distribution(found: Undertrained) -> str:
    """How many tokens have which value of the indicator, stacked by what was found of them."""
    kinds = _kinds(found)
    values = found.values[found.is_eligible]
    edges = np.linspace(values.min(), max(values.max(), values.min() + 1e-9), BINS + 1)

    def paint(axes: "Axes") -> None:
        below = np.zeros(BINS)
        for kind in reversed(kinds):  # the few at the bottom, where a logarithmic axis shows them
            counts, _ = np.histogram(found.values[kinds[kind]], edges)
            axes.stairs(below + counts, edges, baseline=below, fill=True, color=KINDS[kind])
            below = below + counts
        use_log_axis(axes, "y")
        axes.axvline(found.threshold, color=INK, linewidth=0.8, linestyle="--")
        axes.xaxis.set_major_formatter(label_number)

    title, colours = f"{found.name}: distribution of the indicator", [KINDS[kind] for kind in kinds]
    return draw(title, paint, names=kinds, colours=colours, x_label=show_indicator(found), y_label="tokens")


def show_indicator(found: Undertrained) -> str:
    """The indicator in words."""
    return found.indicator.replace("_", " ") + (" distance" if found.indicator in ("cosine", "euclidean") else "")


def _kinds(found: Undertrained) -> dict[str, np.ndarray]:
    """Ids of the tokens that round-trip, int64[n], by what was found of them; without a verdict none is verified."""
    verified = np.zeros(0, np.int64) if found.verified is None else found.verified
    others = np.setdiff1d(np.flatnonzero(found.is_eligible), found.candidates)
    kinds = {"other tokens": others, "candidates": np.setdiff1d(found.candidates, verified)}
    return kinds if found.verified is None else kinds | {"verified": verified}


def _scatter(
    title: str,
    kinds: Mapping[str, np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    *,
    x_label: str,
    y_label: str,
    log: str = "",
) -> str:
    """Tokens by (x, y), float[V] each, in the colour of their kind; of many of a kind every n-th is drawn."""

    def paint(axes: "Axes") -> None:
        for kind, ids in kinds.items():
            shown = ids[:: max(1, -(-len(ids) // MOST_POINTS))]
            style = {"marker": "x", "ms": 5} if kind == "known to be unused" else {"marker": ".", "ms": 4}
            axes.plot(x[shown], y[shown], linestyle="", color=KINDS[kind], **style)
        drawn = x[np.concatenate(list(kinds.values()))]
        if log and len(drawn) and drawn.max() > 10 * drawn.min():
            use_log_axis(axes, log)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(label_number)

    colours = [KINDS[kind] for kind in kinds]
    return draw(title, paint, names=kinds, colours=colours, x_label=x_label, y_label=y_label)
