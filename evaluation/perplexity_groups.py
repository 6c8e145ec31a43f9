"""Documents in groups that losses are told apart by: length, language, repository."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np

from evaluation.held_out_documents import Documents
from evaluation.perplexity import DocumentLosses, summarize

__all__ = ["LEAST_BYTES", "Group", "best_and_worst", "by_language", "by_length", "by_repository", "rankable"]

LEAST_BYTES = 1000
"""Of a repository that is ranked: the loss of less text says nothing."""


class Group(NamedTuple):
    """Some documents."""

    name: str
    rows: np.ndarray
    """int64, their numbers."""


def by_length(lengths: np.ndarray) -> list[Group]:
    """Documents by length (tokens, int64[documents], 1 or more), in buckets of powers of two.

    >>> [(group.name, group.rows.tolist()) for group in by_length(np.array([1, 6, 7, 9]))]
    [('1', [0]), ('4 to 7', [1, 2]), ('8 to 15', [3])]
    """
    floors = [1 << (int(length).bit_length() - 1) for length in lengths]
    return [
        Group(str(floor) if floor == 1 else f"{floor:,} to {2 * floor - 1:,}", rows)
        for floor, rows in sorted(_rows_by(floors).items())
    ]


def by_language(documents: Documents) -> list[Group]:
    """Documents by language, those with the most text first."""
    groups = _rows_by(document.language for document in documents.documents)
    named = [Group(language or "(none)", rows) for language, rows in groups.items()]
    return sorted(named, key=lambda group: (-documents.num_bytes[group.rows].sum(), group.name))


def by_repository(documents: Documents) -> list[Group]:
    """Documents by repository; those without one are left out."""
    groups = _rows_by(document.repository for document in documents.documents)
    return [Group(repository, rows) for repository, rows in sorted(groups.items()) if repository]


def rankable(groups: list[Group], documents: Documents) -> list[Group]:
    """Those with LEAST_BYTES or more."""
    return [group for group in groups if documents.num_bytes[group.rows].sum() >= LEAST_BYTES]


def best_and_worst(
    groups: list[Group], losses: DocumentLosses, documents: Documents, number: int
) -> tuple[list[Group], list[Group]]:
    """The groups of least and of most bits per byte, so many of each, the extreme one first; none is in both."""
    ranked = sorted(groups, key=lambda group: summarize(losses, documents, group.rows).bits_per_byte.value)
    best = ranked[: min(number, (len(ranked) + 1) // 2)]
    return best, ranked[len(best) :][::-1][:number]


def _rows_by(keys: Iterable[Hashable]) -> dict:
    rows = defaultdict(list)
    for row, key in enumerate(keys):
        rows[key].append(row)
    return {key: np.array(numbers, np.int64) for key, numbers in rows.items()}
