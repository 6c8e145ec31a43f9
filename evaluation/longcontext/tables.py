"""What was measured as tables by length and depth, as differences between models, and as JSON."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.longcontext.measuring import NO_DOCUMENT, Cell
from evaluation.longcontext.settings import LongContextConfig
from evaluation.subject import Subject
from evaluation.uncertainty import join_clusters, mean_error, share_error
from tokenizer.measures.page import Table

__all__ = ["MEASURES", "SHARES", "Comparison", "by_luck", "cell_error", "make_tables", "to_json"]

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
        return np.concatenate([cell.values for cell in self._find(name, task, measure, length, depth)])

    def documents(self, name: str, task: str, measure: str, length: int | None, depth: float | None) -> np.ndarray:
        """int64[samples]: the documents that these are of; samples of none have a negative number each."""
        found = np.concatenate([cell.documents for cell in self._find(name, task, measure, length, depth)])
        return np.where(found == NO_DOCUMENT, -1 - np.arange(len(found)), found)

    def error(self, name: str, task: str, measure: str, length: int | None, depth: float | None) -> float | None:
        """Standard error of the mean of the values, over documents; None where all are of one."""
        place = (name, task, measure, length, depth)
        return cell_error(measure, self.values(*place), self.documents(*place))

    def _find(self, name: str, task: str, measure: str, length: int | None, depth: float | None) -> list[Cell]:
        return [
            cell
            for cell in self.cells[name]
            if (cell.task, cell.measure) == (task, measure)
            and length in (None, cell.length)
            and depth in (None, cell.depth)
        ]

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


def cell_error(measure: str, values: np.ndarray, clusters: np.ndarray) -> float | None:
    """Standard error of the mean of values, of which those of one cluster are alike; None where all are of one."""
    return (share_error if measure in SHARES else mean_error)(values, clusters)


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
            "cells": [_cell_json(comparison, name, cell) for cell in comparison.cells[name]],
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


def _cell_json(comparison: Comparison, name: str, cell: Cell) -> dict[str, Any]:
    place = (name, cell.task, cell.measure, cell.length, cell.depth)
    return {
        **cell._asdict(),
        "values": cell.values.tolist(),
        "documents": _count_documents(cell.documents),
        "mean": float(cell.values.mean()),
        "error": comparison.error(*place),
    }


def _count_documents(documents: np.ndarray) -> int | None:
    """How many documents samples are of; None where that is none."""
    return None if (documents < 0).any() else len(np.unique(documents))


def _by_place(comparison: Comparison, task: str, measure: str) -> Table:
    lengths, depths = comparison.config.lengths, comparison.config.depths if task != "loss" else ()
    rows = []
    for name, subject in comparison.subjects.items():
        for depth in (*depths, ALL):
            shown = "all" if depth is ALL else f"{depth:g}"
            cells = [comparison.values(name, task, measure, length, depth) for length in lengths]
            marks = ["*" if length > subject.max_length else "" for length in lengths]
            errors = [
                f" ± {_show(comparison.error(name, task, measure, length, ALL))}" if depth is ALL else ""
                for length in lengths
            ]
            numbers = [
                f"{values.mean():.3f}{error}{mark}" for values, error, mark in zip(cells, errors, marks, strict=True)
            ]
            rows.append((name, shown, *numbers))
        if measure == "choice":
            unread = [comparison.values(name, task, "unread", length, ALL).mean() for length in lengths]
            rows.append((name, "unread", *(f"{value:.3f}" for value in unread)))
        counts = [_count_documents(comparison.documents(name, task, measure, length, ALL)) for length in lengths]
        if None not in counts:
            rows.append((name, "documents", *(f"{count:,}" for count in counts)))
    columns = ("model", "depth", *(f"{length:,}" for length in lengths))
    return Table(columns=columns, rows=rows, caption=_caption(comparison, task, measure))


def _caption(comparison: Comparison, task: str, measure: str) -> str:
    samples, depths = comparison.config.samples, 1 if task == "loss" else len(comparison.config.depths)
    parts = [MEASURES[task, measure], f"{samples} samples a cell"]
    if task == "keys":
        parts.append("±: a standard error over samples")
    else:
        parts.append("±: a standard error over documents, as samples of one are alike; documents: how many there are")
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
                places = [(which, task, measure, length, ALL) for which in (first, name)]
                one, other = (comparison.values(*place) for place in places)
                clusters = join_clusters(*(comparison.documents(*place) for place in places))
                cells.append(f"{(other - one).mean():+.3f} ± {_show(mean_error(other - one, clusters))}")
            rows.append((f"{task}, {measure}", name, *cells))
    columns = ("task", "model", *(f"{length:,}" for length in comparison.config.lengths))
    return Table(
        columns=columns,
        rows=rows,
        caption=f"Differences from {first}, paired by sample; ±: a standard error over documents, of keys over samples",
    )


def _show(error: float | None) -> str:
    return "-" if error is None else f"{error:.3f}"
