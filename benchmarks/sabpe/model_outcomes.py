"""What `python -m evaluation undertrained` says of a model, as far as findings need it."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["ModelOutcome", "read_outcome"]


class ModelOutcome(NamedTuple):
    """Of one seed of an arm; NaN where there is no verdict, or nothing to tell."""

    num_tokens: int
    """Of the vocabulary."""
    passing: float
    """Share of the tokens of median frequency that the model can repeat."""
    verified: float
    rarely_seen: float
    """Tokens that training had fewer than 10 times."""
    candidates: list[int]
    """Ids."""
    verified_ids: list[int]
    predictors: dict[str, dict[str, float]]
    """Of F, R, L and occurrences: `correlation`, `candidates_area`, `verified_area`."""


def read_outcome(path: Path) -> ModelOutcome:
    """Read the JSON of one model."""
    return make_outcome(json.loads(path.read_text(encoding="utf-8"))[0])


def make_outcome(told: dict[str, Any]) -> ModelOutcome:
    """Take from the JSON of a model what is needed."""
    columns = ("correlation", "candidates_area", "verified_area")
    predictors = {
        each["name"]: {name: math.nan if each[name] is None else float(each[name]) for name in columns}
        for each in told["predictors"]
    }
    return ModelOutcome(
        told["tokens"],
        told["passing"],
        math.nan if told["verified"] is None else len(told["verified"]),
        math.nan if told["rarely_seen"] is None else len(told["rarely_seen"]),
        [candidate["id"] for candidate in told["candidates"]],
        told["verified"] or [],
        predictors,
    )
