"""How well what was known when a merge was made tells which tokens a model will not learn."""

from typing import NamedTuple

import numpy as np

from evaluation.undertrained.evidence import Evidence

__all__ = ["Predictor", "area_under_curve", "judge_predictors", "rank_correlation"]


class Predictor(NamedTuple):
    """A number known of tokens, against the indicator and what came of it; None where it cannot be told."""

    name: str
    num_tokens: int
    """Tokens that round-trip and of which the number is known."""
    correlation: float | None
    """Spearman's, with the indicator: 1 if the indicator rises with it."""
    candidates_area: float | None
    """Probability that a candidate has the smaller number than another token, ties counted half; 0.5: no relation."""
    verified_area: float | None
    """The same of verified tokens against all others."""


def judge_predictors(
    evidence: Evidence, values: np.ndarray, is_eligible: np.ndarray, candidates: np.ndarray, verified: np.ndarray | None
) -> list[Predictor]:
    """Judge F, R, L where they are known, and occurrences in training where these were counted.

    Args:
        evidence: Of all tokens.
        values: float64[V], the indicator.
        is_eligible: bool[V].
        candidates: int64[n].
        verified: int64[n]; None without a verdict.
    """
    predictors = []
    is_merged = is_eligible & (evidence.frequency > 0)
    columns = {"F": evidence.frequency, "R": evidence.repositories, "L": evidence.languages}
    known = dict.fromkeys(columns, is_merged)
    if evidence.occurrences is not None:
        columns["occurrences"], known["occurrences"] = evidence.occurrences, is_eligible
    for name, column in columns.items():
        chosen = np.flatnonzero(known[name])
        if not len(chosen):
            continue
        areas = [
            None if found is None else area_under_curve(-column[chosen], np.isin(chosen, found))
            for found in (candidates, verified)
        ]
        predictors.append(Predictor(name, len(chosen), rank_correlation(column[chosen], values[chosen]), *areas))
    return predictors


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's rank correlation, ties with their mean rank; None where one of them is all the same.

    >>> round(rank_correlation(np.array([1, 2, 3]), np.array([0.1, 5.0, 9.0])), 6)
    1.0
    """
    from scipy.stats import rankdata

    ranks = np.stack((rankdata(first), rankdata(second)))
    if len(first) < 2 or not ranks.std(axis=1).all():
        return None
    return float(np.corrcoef(ranks)[0, 1])


def area_under_curve(scores: np.ndarray, is_positive: np.ndarray) -> float | None:
    """Area under the ROC curve of a score that should be high for positives; None without either kind.

    >>> area_under_curve(np.array([3, 1, 2, 2]), np.array([True, False, True, False]))
    0.875
    """
    from scipy.stats import rankdata

    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    if not positives or not negatives:
        return None
    wins = rankdata(scores)[is_positive].sum() - positives * (positives + 1) / 2
    return float(wins / (positives * negatives))
