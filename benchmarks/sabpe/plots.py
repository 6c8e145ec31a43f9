"""Plots as SVG: measures by threshold, R against L of tokens and what became of them, under-trained tokens."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.sabpe.models import Job, is_done, outcome_of
from benchmarks.sabpe.results import Results, measures_of
from benchmarks.sabpe.scales import Scale
from benchmarks.sabpe.tables import TITLES
from benchmarks.tokenizer_priorities import Setting
from tokenizer import Tokenizer
from tokenizer.measures.drawing import COLOURS, draw, use_log_axis
from tokenizer.measures.history import history
from tokenizer.measures.plots import plot_bars, plot_density, plot_lines
from tokenizer.output import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_plots"]

KINDS = {"other tokens": COLOURS[0], "candidates": COLOURS[1], "verified": COLOURS[7]}
_INK, _PAPER = "#1d2430", "#ffffff"


def write_plots(scale: Scale, results: Results, output: Path) -> list[Path]:
    """Write OUTPUT/plots/*.svg of what there is; returns them."""
    folder = output / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, str] = {}
    for letter, settings in (("R", scale.settings_of_repositories), ("L", scale.settings_of_languages)):
        for name, label in (("compression", "bytes a token"), ("coverage", "distinct tokens"), ("gini", "Gini index")):
            lines = _by_threshold(results, settings, name)
            if lines:
                title = f"{name.capitalize()} by the threshold of {letter}"
                drawn[f"{name}-{letter}"] = plot_lines(
                    title, lines, x_label=f"{letter} at least", y_label=label, marks=True
                )
    for arm, title in TITLES.items():
        job = Job(arm, 0)
        if is_done(job, output):
            drawn |= _of_model(job, title.strip("`"), output)
    if results.models:
        drawn["undertrained"] = _counts(results)
    paths = [folder / f"{name}.svg" for name in drawn]
    for path, text in zip(paths, drawn.values(), strict=True):
        write_file(path, _as_file(text).encode())
    return paths


def _by_threshold(results: Results, settings: list[Setting], name: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A line of each priority, of the vocabularies that were filled: smaller ones cannot be compared."""
    by_setting = {each: usage for each, usage in results.usages.items() if each.kind == "all"}
    lines: dict[str, list[tuple[int, float]]] = {}
    for each, usage in by_setting.items():
        if each.setting in settings and usage.vocab_size == each.vocab_size:
            value = measures_of(usage, None)[name]
            threshold = max(each.setting.min_repositories, each.setting.min_languages)
            lines.setdefault(each.setting.priority, []).append((threshold, value))
    return {name: tuple(np.array(sorted(points), float).T) for name, points in lines.items()}  # type: ignore[misc]


def _of_model(job: Job, title: str, output: Path) -> dict[str, str]:
    """The paper's Figure 2: R and L of merges in their order, and R against L, by what became of the tokens."""
    trained = Tokenizer.load(job.data(output) / job.arm)
    outcome, merges = outcome_of(job, output), history(trained)
    ids = np.asarray(trained.ids)[256 + merges.numbers]
    kinds = {
        "other tokens": ~np.isin(ids, outcome.candidates),
        "candidates": np.isin(ids, outcome.candidates) & ~np.isin(ids, outcome.verified_ids),
        "verified": np.isin(ids, outcome.verified_ids),
    }
    kinds = {kind: is_kind for kind, is_kind in kinds.items() if is_kind.any()}

    def paint(axes: "Axes") -> None:
        # L has few values: points beside each other would hide one another.
        moved = merges.languages * np.exp(np.random.default_rng(0).uniform(-0.03, 0.03, len(ids)))
        for kind, is_kind in kinds.items():
            axes.plot(
                moved[is_kind],
                merges.repositories[is_kind],
                ".",
                color=KINDS[kind],
                ms=3 if kind == "other tokens" else 6,
            )
        use_log_axis(axes, "x", "y")

    colours = [KINDS[kind] for kind in kinds]
    name, x_label, y_label = f"{title}: R against L of merges", "L, languages that hold the pair", "R, repositories"
    plane = draw(name, paint, names=kinds, colours=colours, x_label=x_label, y_label=y_label)
    return {
        f"{job.arm}-R-L": plane,
        f"{job.arm}-R": plot_density(f"{title}: R of merges", merges.repositories, label="R"),
        f"{job.arm}-L": plot_density(f"{title}: L of merges", merges.languages, label="L", colour=1),
    }


def _counts(results: Results) -> str:
    """Bars of verified tokens and of those that training had fewer than 10 times, a group a seed."""
    seeds = [arms for arms in results.models if len(arms) == len(TITLES)]
    column: dict[str, Callable[[dict, str], float]] = {
        "verified": lambda arms, arm: arms[arm].verified,
        "rare": lambda arms, arm: arms[arm].rarely_seen,
    }
    series = {
        f"{title.strip('`')}, {name}": [value(arms, arm) for arms in seeds]
        for arm, title in TITLES.items()
        for name, value in column.items()
    }
    groups, label = [f"seed {seed}" for seed in range(len(seeds))], "tokens; rare: seen fewer than 10 times in training"
    return plot_bars("Under-trained tokens", groups, series, label=label)


def _as_file(svg: str) -> str:
    """A drawing that was made for a page, on paper of its own."""
    return svg.replace("currentColor", _INK).replace("<svg ", f'<svg style="background:{_PAPER}" ', 1)
