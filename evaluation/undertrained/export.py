"""What was found as plain values, and the list of tokens that `python -m tokenizer prune --remove` takes."""

from typing import Any

import numpy as np

from evaluation.undertrained.finding import Undertrained
from tokenizer.measures.spelling import show_token

__all__ = ["removal_json", "to_json"]


def to_json(found: Undertrained) -> dict[str, Any]:
    """Everything that a table or plot of a model shows, but for the indicators of tokens that are no candidates."""
    verified, rarely = found.verified, found.rarely_seen
    return {
        "model": found.name,
        "fingerprint": found.fingerprint,
        "tokens": len(found.tokens),
        "eligible": int(found.is_eligible.sum()),
        "reference": {"source": found.reference.source, "ids": found.reference.ids.tolist()},
        "indicator": found.indicator,
        "threshold": found.threshold,
        "examples": [prompt.num_examples for prompt in found.prompts],
        "passing": found.passing,
        "verified": None if verified is None else verified.tolist(),
        "rarely_seen": None if rarely is None else rarely.tolist(),
        "occurrences_in": found.evidence.scope or None,
        "candidates": [
            {
                "probability": float(found.highest[row]),
                "category": found.categories[row],
                **_token_json(found, int(number)),
            }
            for row, number in enumerate(found.candidates)
        ],
        "controls": [
            {"id": int(number), "token": show_token(found.tokens[number]), "probability": float(highest)}
            for number, highest in zip(found.controls, found.control_probabilities.max(axis=(1, 2)), strict=True)
        ],
        "predictors": [predictor._asdict() for predictor in found.predictors()],
    }


def removal_json(found: Undertrained) -> dict[str, Any]:
    """The verified tokens and whose they are; empty without a verdict."""
    verified = found.verified
    ids = [] if verified is None else np.sort(verified).tolist()
    return {
        "fingerprint": found.fingerprint,
        "ids": ids,
        "tokens": [show_token(found.tokens[number]) for number in ids],
    }


def _token_json(found: Undertrained, number: int) -> dict[str, Any]:
    evidence = found.evidence
    is_known = evidence.frequency[number] > 0
    columns = {"F": evidence.frequency, "R": evidence.repositories, "L": evidence.languages}
    return {
        "id": number,
        "token": show_token(found.tokens[number]),
        **{name: float(column[number]) for name, column in found.indicators._asdict().items()},
        "input_norm": float(found.input_norms[number]),
        **{name: int(column[number]) if is_known else None for name, column in columns.items()},
        "occurrences": None if evidence.occurrences is None else int(evidence.occurrences[number]),
    }
