"""What was found in one model, or in several beside each other, as tables."""

from collections.abc import Sequence

import numpy as np

from evaluation.undertrained.categories import CATEGORIES
from evaluation.undertrained.finding import LEAST_PASSING, LEAST_PROBABILITY, RARELY, Undertrained
from tokenizer.measures.page import Table
from tokenizer.measures.spelling import show_count, show_token

__all__ = ["make_tables"]


def make_tables(models: Sequence[Undertrained], num_rows: int = 20) -> list[Table]:
    """Counts of the models, their categories, what tells such tokens beforehand, and `num_rows` candidates of each.

    Without rows there are no tables of candidates.
    """
    tables = [_counts(models), _categories(models)]
    tables += [_predictors(found) for found in models if found.predictors()]
    return tables + [_candidates(found, num_rows) for found in models if num_rows]


def _counts(models: Sequence[Undertrained]) -> Table:
    columns = ("model", "tokens", "round-trip", "reference", "indicator", "candidates", "at most", "controls pass")
    columns += ("verified", "share", f"seen < {RARELY}", "seen in")
    rows = []
    for found in models:
        verified, rarely = found.verified, found.rarely_seen
        eligible = int(found.is_eligible.sum())
        rows.append(
            (
                found.name,
                f"{len(found.tokens):,}",
                f"{eligible:,}",
                f"{len(found.reference.ids):,} {found.reference.source}",
                found.indicator.replace("_", " "),
                f"{len(found.candidates):,}",
                f"{found.threshold:.4f}",
                f"{found.passing:.0%}",
                "no verdict" if verified is None else f"{len(verified):,}",
                "-" if verified is None else f"{len(verified) / eligible:.2%}",
                "-" if rarely is None else f"{len(rarely):,}",
                found.evidence.scope or "-",
            )
        )
    return Table(columns=columns, rows=rows, caption=_explain(models))


def _explain(models: Sequence[Undertrained]) -> str:
    """What the numbers mean, and which models cannot be judged."""
    said = (
        f"Under-trained tokens: verified are candidates to which no prompt for repetition gives {LEAST_PROBABILITY:.0%}"
    )
    mute = [found.name for found in models if not found.has_verdict]
    if mute:
        said += (
            f"; no verdict on {', '.join(mute)}: fewer than {LEAST_PASSING:.0%} of the controls, tokens of median "
            "frequency, pass, so the model cannot copy"
        )
    return said


def _categories(models: Sequence[Undertrained]) -> Table:
    columns: list[str] = ["category"]
    for found in models:
        columns += [f"{found.name}, candidates", f"{found.name}, verified"]
    rows = []
    for category in CATEGORIES:
        row = [category]
        for found in models:
            is_category = np.array([other == category for other in found.categories], bool)
            row.append(f"{is_category.sum():,}")
            verified = found.verified
            row.append("-" if verified is None else f"{np.isin(found.candidates[is_category], verified).sum():,}")
        rows.append(row)
    return Table(columns=columns, rows=rows, caption="Candidates by category")


def _predictors(found: Undertrained) -> Table:
    rows = [
        (
            predictor.name,
            f"{predictor.num_tokens:,}",
            *("-" if number is None else f"{number:.3f}" for number in predictor[2:]),
        )
        for predictor in found.predictors()
    ]
    columns = ("known before", "tokens", "rank correlation", "AUC, candidates", "AUC, verified")
    caption = f"{found.name}: how a small F, R, L of the merge foretells a low {found.indicator.replace('_', ' ')}"
    caption += _say_scope(found)
    return Table(columns=columns, rows=rows, caption=caption)


def _candidates(found: Undertrained, num_rows: int) -> Table:
    columns = ("token", "id", "category", found.indicator.replace("_", " "), "probability", "verified")
    columns += ("F", "R", "L", "occurrences")
    evidence, rows = found.evidence, []
    for row, number in enumerate(found.candidates[:num_rows]):
        highest = found.highest[row]
        is_verified = "-" if not found.has_verdict else "yes" if highest < LEAST_PROBABILITY else "no"
        is_known = evidence.frequency[number] > 0
        numbers = (evidence.frequency, evidence.repositories, evidence.languages)
        rows.append(
            (
                show_token(found.tokens[number]),
                f"{number:,}",
                found.categories[row],
                f"{found.values[number]:.4f}",
                f"{highest:.2%}",
                is_verified,
                *(f"{column[number]:,}" if is_known else "-" for column in numbers),
                "-" if evidence.occurrences is None else f"{evidence.occurrences[number]:,}",
            )
        )
    shown = f"{len(rows):,} of {show_count(len(found.candidates), 'candidate')}"
    return Table(
        columns=columns, rows=rows, caption=f"{found.name}: {shown}, the lowest indicator first{_say_scope(found)}"
    )


def _say_scope(found: Undertrained) -> str:
    """What occurrences are counted in, if they are."""
    return f"; occurrences in {found.evidence.scope}" if found.evidence.scope else ""
