"""Long-context tasks as a page: accuracy over length for all models, and a map of depth and length for each."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evaluation.longcontext.tables import MEASURES, SHARES, Comparison, make_tables
from tokenizer.measures.drawing import COLOURS, INK, draw, label_number
from tokenizer.measures.page import Section, Table, write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_longcontext_page"]

_TITLES = {
    "needle": "Needle in a haystack",
    "keys": "Keys and values",
    "documents": "A question that one of several documents answers",
    "repetition": "A passage that comes again",
    "loss": "The end of a document",
}
_NOTES = {
    "needle": "A made-up fact is planted in documents and asked for at the end.",
    "keys": "Lines of keys and numbers fill the context; one key is asked for again.",
    "documents": "Parts of documents under their titles, and a question whose answer stands in one of them once.",
    "repetition": "Compared with the same tokens after the same context in which another passage stood at that place.",
    "loss": "The same last tokens after more and more of the document before them.",
}


def write_longcontext_page(path: Path, comparison: Comparison) -> None:
    """Write the page, whole or not at all."""
    tables = dict(zip([*comparison.measured, None], make_tables(comparison), strict=False))
    sections = []
    for task in comparison.config.tasks:
        keys = [key for key in comparison.measured if key[0] == task]
        plots = [_over_length(comparison, *key) for key in keys]
        if task != "loss":
            plots += [_map(comparison, name, *keys[0]) for name in comparison.subjects]
        sections.append(
            Section(title=_TITLES[task], notes=[_NOTES[task]], plots=plots, tables=[tables[key] for key in keys])
        )
    if None in tables:
        sections.append(Section(title="Differences", tables=[tables[None]]))
    sections.append(Section(title="Settings", tables=[_settings(comparison)]))
    write_page(path, f"Long contexts: {', '.join(comparison.subjects)}", sections)


def _over_length(comparison: Comparison, task: str, measure: str) -> str:
    """Means with standard errors over documents; hollow marks are beyond the length that a model was trained on."""
    lengths, names = sorted(comparison.config.lengths), list(comparison.subjects)
    is_share, chance = measure in SHARES, comparison.chance(measure)

    def paint(axes: "Axes") -> None:
        places = np.arange(len(lengths))
        for index, name in enumerate(names):
            found = [comparison.values(name, task, measure, length, None) for length in lengths]
            means = [one.mean() for one in found]
            told = [comparison.error(name, task, measure, length, None) for length in lengths]
            # Where all samples are of one document, nothing tells the error: no bar.
            errors = [np.nan if error is None else error for error in told]
            colour = COLOURS[index % len(COLOURS)]
            # Beside each other, so that error bars are told apart.
            at = places + 0.06 * (index - (len(names) - 1) / 2)
            axes.errorbar(at, means, errors, color=colour, linewidth=1.6, elinewidth=1.0)
            filled = [colour if one <= comparison.subjects[name].max_length else "none" for one in lengths]
            axes.scatter(at, means, s=20, facecolors=filled, edgecolors=colour, zorder=3)
        if chance is not None:
            axes.axhline(chance, color=INK, linewidth=1.0, linestyle="--")
        axes.set_xticks(places, [f"{length:,}" for length in lengths])
        axes.yaxis.set_major_formatter(label_number)
        if is_share:
            axes.set_ylim(-0.04, 1.04)

    label = ("share right" if is_share else "nats a token") + (", dashed: chance" if chance else "")
    title = f"{MEASURES[task, measure].split(',')[0]}: {measure}"
    return draw(title, paint, names=names, x_label="tokens of context", y_label=label)


def _map(comparison: Comparison, name: str, task: str, measure: str) -> str:
    """Cells of depth (downwards) and length, each with its number."""
    lengths, depths = sorted(comparison.config.lengths), sorted(comparison.config.depths)
    # means: (depths, lengths)
    means = np.array(
        [[comparison.values(name, task, measure, one, depth).mean() for one in lengths] for depth in depths]
    )
    top = 1.0 if measure == "choice" else max(1e-9, float(means.max()))

    def paint(axes: "Axes") -> None:
        from matplotlib.patches import Rectangle

        for (row, column), mean in np.ndenumerate(means):
            opacity = 0.05 + 0.75 * float(np.clip(mean / top, 0, 1))
            axes.add_patch(
                Rectangle((column - 0.48, row - 0.47), 0.96, 0.94, color=COLOURS[2], alpha=opacity, linewidth=0)
            )
            axes.text(column, row, f"{mean:.2f}", ha="center", va="center")
        axes.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
        axes.set_yticks(range(len(depths)), [f"{depth:g}" for depth in depths])
        axes.set_xlim(-0.5, len(lengths) - 0.5)
        axes.set_ylim(len(depths) - 0.5, -0.5)
        axes.grid(visible=False)

    title = f"{name}: {measure} by depth and length"
    return draw(title, paint, x_label="tokens of context", y_label="depth", height=1.2 + 0.32 * len(depths))


def _settings(comparison: Comparison) -> Table:
    rows = [("documents", comparison.source)]
    rows += [(f"rope base of {name}", f"{subject.config.rope_base:g}") for name, subject in comparison.subjects.items()]
    for name, value in vars(comparison.config).items():
        shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        rows.append((f"--{name}", shown))
    return Table(columns=("setting", "value"), rows=rows)
