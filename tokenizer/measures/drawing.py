"""A figure as SVG text: the page's colour for text and axes, the same bytes every time, matplotlib hidden behind it."""

import html
import io
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenizer.measures.spelling import show_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "INK", "draw", "label_number", "ordered_colours", "use_log_axis"]

COLOURS = ("#3b82c4", "#e07b39", "#3a9d6e", "#c75a9b", "#8a6fd1", "#b8952b", "#4aa3b5", "#d0545a")
"""Of series, in order, over again when there are more; legible on white and on near black."""

_SCALE = ("#4a7fe0", "#2f9fb5", "#3a9d6e", "#9f9b2e", "#d8763a", "#c93a6a")

WIDTH_INCHES = 5.2  # as wide as a phone at its own text size; wider pages put two beside each other
INK = "#010203"
"""The page's colour of text, for what is drawn: it stands for `currentColor`, which matplotlib does not know."""

LEGEND_CHARACTERS = 80  # of a line
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tokenizer",
    "text.parse_math": False,  # a name may hold dollar signs
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
}


def draw(
    title: str,
    paint: Callable[["Axes"], None],
    *,
    names: Iterable[str] = (),
    colours: Sequence[str] = COLOURS,
    x_label: str = "",
    y_label: str = "",
    height: float = 3.3,
) -> str:
    """Draw one pair of axes into SVG text that fits into a page.

    Args:
        title: Stands above, and is what a reader who does not see hears.
        paint: Draws on the axes.
        names: Of series, for a legend of their colours, if there are several.
        colours: Of the series, in their order.
        x_label: Below the axes.
        y_label: Beside the axes.
        height: In inches; the width is WIDTH_INCHES.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # The browser has fonts that matplotlib has not, and is who shows the text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        axes = figure.add_subplot()
        paint(axes)
        axes.set_title(show_text(title))
        axes.set_xlabel(show_text(x_label))
        axes.set_ylabel(show_text(y_label))
        _add_legend(figure, [show_text(name) for name in names], colours)
        buffer = io.StringIO()
        nothing: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return _inline(buffer.getvalue(), title)


def ordered_colours(number: int) -> list[str]:
    """Colours of series that have an order, such as lengths: from blue over green to red, all legible on both pages.

    >>> ordered_colours(3)
    ['#4a7fe0', '#6c9c4e', '#c93a6a']
    """
    # places: (number,) on the scale of _SCALE; rgb: (_SCALE, 3)
    places = np.linspace(0, len(_SCALE) - 1, max(1, number))
    rgb = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in _SCALE])
    channels = [np.interp(places, np.arange(len(_SCALE)), rgb[:, channel]) for channel in range(3)]
    return ["#" + "".join(f"{round(part):02x}" for part in colour) for colour in zip(*channels, strict=True)][:number]


def _add_legend(figure: "Figure", names: list[str], colours: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    if len(names) > 1:
        columns = max(1, min(len(names), LEGEND_CHARACTERS // (max(map(len, names)) + 6)))
        handles = [Patch(color=colours[index % len(colours)]) for index in range(len(names))]
        figure.legend(handles, names, loc="outside lower center", ncols=columns)


def _inline(svg: str, title: str) -> str:
    """Make a drawing part of a page: no prologue, size by the page, its colour, a name."""
    svg = svg[svg.index("<svg") :].strip().replace(INK, "currentColor")
    head, _, rest = svg.partition(">")
    head = re.sub(r' (width|height|version|xmlns)="[^"]*"', "", head)
    name = html.escape(show_text(title))
    return f'{head} xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}">{rest}'


def label_number(value: float, _position: float = 0) -> str:
    """Write a tick's number briefly.

    >>> [label_number(value) for value in (0, 0.5, 1000, 32768, 2.5e6, 1e-5)]
    ['0', '0.5', '1k', '32.8k', '2.5M', '1e-05']
    """
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def use_log_axis(axes: "Axes", *names: str) -> None:
    """Make axes ("x", "y") logarithmic, with plain numbers at the powers of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for name in names:
        axes.set(**{f"{name}scale": "log"})
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter(FuncFormatter(label_number))
        axis.set_minor_formatter(NullFormatter())
