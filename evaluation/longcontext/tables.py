"""What was measured as tables by length and depth, as differences between models, and as JSON."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.longcontext.measuring import Cell
from evaluation.longcontext.settings import LongContextConfig
from evaluation.subject import Subject
from evaluation.uncertainty import accuracy_error
from tokenizer.measures.page import Table

__all__ = ["MEASURES", "SHARES", "Comparison", "by_luck", "make_tables", "mean_error", "to_json"]

SHARES = ("choice", "written", "unread")
"""Measures that are shares of right answers."""

MEASURES = {
    ("needle", "choice"): "Needle, choice of the likeliest answer",
    ("needle", "written"): "Needle, answer written",
    ("keys", "choice"): "Keys, choice of the likeliest answer",
    ("keys", "written"): "Keys, answer written",
    ("documents", "choice"): "Documents, choice of the likeliest answer",
    ("documents", "written"): "Documents, answer written",
    ("repetition", "gain"): "Repetition, nats a token that a passage gains by having been there before",
    ("loss", "loss"): "Loss of the end of a document, nats a token",
    (
        "loss",
        "gain",
    ): "Loss of the end of a document under the shortest context, less that under this one, nats a token",
}
"""What is shown, in order: share of right answers where nothing else is said."""

ALL = None
"""Depth that stands for all together."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Models by name, with what was measured of each at the same lengths and depths."""

    config: LongContextConfig
    source: str
    """What the documents are, in words."""
    subjects: dict[str, Subject]
    cells: dict[str, list[Cell]]

    @property
    def measured(self) -> list[tuple[str, str]]:
        """Pairs (task, measure) that are shown."""
        return [key for key in MEASURES if key[0] in self.config.tasks]

    def values(self, name: str, task: str, measure: str, length: int | None, depth: float | None) -> np.ndarray:
        """float64[samples] of a model's cell; None: of all lengths, of all depths."""
        found = [
            cell.values
            for cell in self.cells[name]
            if (cell.task, cell.measure) == (task, measure)
            and length in (None, cell.length)
            and depth in (None, cell.depth)
        ]
        return np.concatenate(found)

    def chance(self, measure: str) -> float | None:
        """What a model reaches that reads nothing; None where nothing says."""
        if measure == "gain":
            return 0.0
        if measure != "choice":
            return None
        return 1 / self.config.choices


def by_luck(chance: float, count: int) -> float:
    """The share of right answers among `count` that pure chance exceeds once in 40 (binomial).

    >>> by_luck(0.25, 20)
    0.45
    """
    below, right = 0.0, -1
    while below < 0.975:
        right += 1
        ways = math.lgamma(count + 1) - math.lgamma(right + 1) - math.lgamma(count - right + 1)
        below += math.exp(ways + right * math.log(chance) + (count - right) * math.log1p(-chance))
    return right / count


def mean_error(measure: str, values: np.ndarray) -> float | None:
    """Standard error of the mean of values; None where nothing says.

    Of shares as if two more answers were right and two wrong (Agresti and Coull 1998), so that a few answers that are
    all right or all wrong do not look certain.
    """
    if measure not in SHARES:
        return accuracy_error(values)
    count = len(values) + 4
    share = (values.sum() + 2) / count
    return float(np.sqrt(share * (1 - share) / count))


def make_tables(comparison: Comparison) -> list[Table]:
    """A table for each measure, by depth and length; of several models one of differences from the first."""
    tables = [_by_place(comparison, *key) for key in comparison.measured]
    if len(comparison.cells) > 1:
        tables.append(_differences(comparison))
    return tables


def to_json(comparison: Comparison) -> dict[str, Any]:
    """All that was measured, as plain values."""
    models = [
        {
            "name": name,
            "model": str(subject.place),
            "step": subject.step,
            "rope_base": subject.config.rope_base,
            "trained_length": subject.max_length,
            "cells": [_cell_json(cell) for cell in comparison.cells[name]],
        }
        for name, subject in comparison.subjects.items()
    ]
    settings = {name: value for name, value in vars(comparison.config).items() if name != "task"}
    return {
        "documents": comparison.source,
        "tasks": list(comparison.config.tasks),
        "settings": settings,
        "chance": comparison.chance("choice"),
        "models": models,
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    mean, error = float(cell.values.mean()), mean_error(cell.measure, cell.values)
    return {**cell._asdict(), "values": cell.values.tolist(), "mean": mean, "error": error}


def _by_place(comparison: Comparison, task: str, measure: str) -> Table:
    lengths, depths = comparison.config.lengths, comparison.config.depths if task != "loss" else ()
    rows = []
    for name, subject in comparison.subjects.items():
        for depth in (*depths, ALL):
            shown = "all" if depth is ALL else f"{depth:g}"
            cells = [comparison.values(name, task, measure, length, depth) for length in lengths]
            marks = ["*" if length > subject.max_length else "" for length in lengths]
            errors = [f" ± {_show(mean_error(measure, values))}" if depth is ALL else "" for values in cells]
            numbers = [
                f"{values.mean():.3f}{error}{mark}" for values, error, mark in zip(cells, errors, marks, strict=True)
            ]
            rows.append((name, shown, *numbers))
        if measure == "choice":
            unread = [comparison.values(name, task, "unread", length, ALL).mean() for length in lengths]
            rows.append((name, "unread", *(f"{value:.3f}" for value in unread)))
    columns = ("model", "depth", *(f"{length:,}" for length in lengths))
    return Table(columns=columns, rows=rows, caption=_caption(comparison, task, measure))


def _caption(comparison: Comparison, task: str, measure: str) -> str:
    samples, depths = comparison.config.samples, 1 if task == "loss" else len(comparison.config.depths)
    parts = [MEASURES[task, measure], f"{samples} samples a cell"]
    chance = comparison.chance(measure)
    if measure == "choice" and chance is not None:
        luck, all_luck = by_luck(chance, samples), by_luck(chance, samples * depths)
        parts.append(
            f"chance is {chance:.3f}, and a guesser stays within {luck:.3f} a cell, {all_luck:.3f} over depths"
        )
        parts.append("unread: the same without the context")
    if any(
        length > subject.max_length for subject in comparison.subjects.values() for length in comparison.config.lengths
    ):
        parts.append("*: longer than the model was trained on")
    return "; ".join(parts)


def _differences(comparison: Comparison) -> Table:
    first, *others = comparison.subjects
    rows = []
    for task, measure in comparison.measured:
        for name in others:
            cells = []
            for length in comparison.config.lengths:
                one, other = (comparison.values(which, task, measure, length, ALL) for which in (first, name))
                cells.append(f"{(other - one).mean():+.3f} ± {_show(accuracy_error(other - one))}")
            rows.append((f"{task}, {measure}", name, *cells))
    columns = ("task", "model", *(f"{length:,}" for length in comparison.config.lengths))
    return Table(
        columns=columns, rows=rows, caption=f"Differences from {first}, paired by sample, with standard errors"
    )


def _show(error: float | None) -> str:
    return "-" if error is None else f"{error:.3f}"
