"""Accuracies of models on the same items, as tables and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from evaluation.choice_items import Item
from evaluation.choices import RULES, ItemScores, Rule
from evaluation.uncertainty import accuracy_error
from tokenizer.measures.page import Table
from tokenizer.measures.spelling import show_count

__all__ = ["Answers", "make_tables", "to_json"]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a model answers."""

    scores: Sequence[ItemScores]
    is_right: Mapping[Rule, np.ndarray]
    """bool[items] by each rule."""
    chance: float
    """Accuracy of who draws."""

    @classmethod
    def of(cls, items: Sequence[Item], scores: Sequence[ItemScores]) -> Self:
        """Compare with the right answers."""
        right = np.array([item.answer for item in items])
        found: dict[Rule, np.ndarray] = {
            rule: np.array([one.by(rule).argmax() for one in scores]) == right for rule in RULES
        }
        return cls(scores=scores, is_right=found, chance=float(np.mean([1 / len(item.choices) for item in items])))

    @property
    def num_cut(self) -> int:
        """Items whose context did not fit."""
        return sum(one.cut > 0 for one in self.scores)


def make_tables(answers: Mapping[str, Answers]) -> list[Table]:
    """Accuracy of each model by each rule, and of several the differences from the first."""
    first = next(iter(answers.values()))
    rows = [
        (name, rule, *_show(one.is_right[rule]), f"{one.chance:.4f}", f"{one.num_cut:,}")
        for name, one in answers.items()
        for rule in RULES
    ]
    caption = (
        f"{show_count(len(first.scores), 'item')}; the choice of the highest log-probability wins: mean over its "
        "tokens, total, or over its bytes. Cut: items whose context did not fit and lost its left"
    )
    columns = ("model", "by", "accuracy", "±", "chance", "cut")
    tables = [Table(columns=columns, rows=rows, caption=caption)]
    if len(answers) > 1:
        tables.append(_differences(answers))
    return tables


def to_json(answers: Mapping[str, Answers]) -> list[dict[str, Any]]:
    """The same as plain values, and the differences from the first model paired by item."""
    first = next(iter(answers.values()))
    return [
        {
            "name": name,
            "items": len(one.scores),
            "cut": one.num_cut,
            "chance": one.chance,
            "accuracy": {rule: _mean(one.is_right[rule]) for rule in RULES},
            "difference_from_first": {rule: _mean(_difference(first, one, rule)) for rule in RULES},
        }
        for name, one in answers.items()
    ]


def _differences(answers: Mapping[str, Answers]) -> Table:
    (first_name, first), *others = answers.items()
    rows = [(name, rule, *_show(_difference(first, one, rule), "+")) for name, one in others for rule in RULES]
    caption = f"Accuracy less that of {first_name}, paired by item"
    return Table(columns=("model", "by", "difference", "±"), rows=rows, caption=caption)


def _difference(first: Answers, other: Answers, rule: Rule) -> np.ndarray:
    return other.is_right[rule].astype(float) - first.is_right[rule]


def _mean(values: np.ndarray) -> dict[str, float | None]:
    return {"value": float(values.mean()), "error": accuracy_error(values)}


def _show(values: np.ndarray, sign: str = "") -> tuple[str, str]:
    error = accuracy_error(values)
    return f"{values.mean():{sign}.4f}", "-" if error is None else f"{error:.4f}"
