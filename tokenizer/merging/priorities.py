"""Priorities of pairs: what the next merge maximises.

F is how often a pair occurs, R in how many repositories, L in how many languages (SA-BPE, arXiv 2604.14053).
"""

import math
from dataclasses import dataclass

import numpy as np

from tokenizer.errors import TokenizerError

__all__ = ["PRIORITIES", "Priority", "make_priority", "resolve_priority"]

PRIORITIES = ("F", "F*L", "F*log(R+1)", "F*logR", "F*log(R+1)*L", "F*logR*L")

_PLACES = 40


@dataclass(frozen=True, kw_only=True)
class Priority:
    """One of PRIORITIES as a function of F, R and L; it falls with none of them."""

    log_table: np.ndarray | None
    """float64[repositories + 1]: the factor of every R; None: R does not matter."""
    has_languages: bool
    """Whether L is a factor."""

    def evaluate(self, frequencies: np.ndarray, repositories: np.ndarray, languages: np.ndarray) -> np.ndarray:
        """Return (F * log_table[R]) * L (float64) of pairs with these F, R and L (integers)."""
        values = frequencies.astype(np.float64)
        if self.log_table is not None:
            values *= self.log_table[repositories]
        if self.has_languages:
            values *= languages
        return values


def make_priority(name: str, num_repositories: int) -> Priority:
    """Return the priority of a name, for R up to `num_repositories`; raises TokenizerError for an unknown name."""
    if name not in PRIORITIES:
        raise TokenizerError(f"priority must be one of {', '.join(PRIORITIES)}, got {name!r}")
    table = None
    if "log" in name:
        table = log_table(num_repositories, shift=1 if "log(R+1)" in name else 0)
    return Priority(log_table=table, has_languages=name.endswith("*L"))


def log_table(largest: int, shift: int) -> np.ndarray:
    """Return log(R + shift) for R = 0..largest (float64), rounded to 40 binary places; 0 for R = 0.

    Rounded, it is the same on every processor, and products that are equal as reals mostly compare equal.
    """
    logs = [0.0, *(round(math.log(value + shift) * 2**_PLACES) / 2**_PLACES for value in range(1, largest + 1))]
    return np.array(logs)


def resolve_priority(name: str, *, num_repositories: int, num_languages: int) -> str:
    """Return the priority that "auto" stands for in a corpus, any other name unchanged.

    F*logR*L from two languages up, else F*logR; but F in a corpus of one repository, where log R is 0 for every pair.
    """
    if name != "auto":
        return name
    if num_repositories < 2:
        return "F"
    return "F*logR*L" if num_languages >= 2 else "F*logR"
