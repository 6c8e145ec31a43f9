"""The rule by which a finding holds, does not hold, or is too small to tell. Written before anything was run.

An effect is measured so that more is what the claim says, and has a bound. Its interval has two ends, each passed with
a chance of 10% where nothing is there:

- of seeds (each has its own repositories to learn from, initial weights and order of rows): that of
  `benchmarks.verdicts`, from Student's distribution, with a resolution below which no deviation is believed; one seed
  tells nothing;
- of one vocabulary against another on the same documents: evaluation repositories are drawn with replacement, as many
  as there are, the same ones for both; the 10% and 90% points of the effect over draws, moved so that the median draw
  is the effect of all (a draw leaves out a third of the repositories, and has fewer distinct tokens, which would pass
  for an effect). Fewer than 5 repositories tell nothing.

The finding holds if the whole interval is above the bound, does not hold if it is below, and is otherwise too small to
tell, as is everything at quick sizes. Verified under-trained tokens are counted only of models of which at least 95% of
the tokens of median frequency pass the same prompts; a seed of which an arm does not is left out.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.verdicts import CHANCE, Interval, Verdict, interval_of

__all__ = ["LEAST_REPOSITORIES", "RESOLUTION", "Found", "judge_draws", "judge_seeds"]

RESOLUTION = {"ratio": 0.002, "tokens": 1.0, "parts": 0.2, "area": 0.01, "correlation": 0.01}
"""Least deviation over seeds that is believed, by unit."""
LEAST_REPOSITORIES = 5


class Found(NamedTuple):
    """A claim and what was measured of it."""

    part: str
    claim: str
    unit: str
    effect: float
    """More is what the claim says; NaN where nothing could be measured."""
    effects: list[float]
    """One a seed; empty of draws."""
    interval: Interval
    spread: str
    """What the interval is over, in words."""
    verdict: Verdict


def judge_seeds(
    part: str, claim: str, unit: str, effects: Sequence[float], bound: float = 0.0, *, can_tell: bool = True
) -> Found:
    """Judge an effect of which every seed has one; NaN: a seed that tells nothing."""
    known = [effect for effect in effects if not math.isnan(effect)]
    counted = f"{len(known)} of {len(effects)}" if len(known) < len(effects) else f"{len(known)}"
    spread = f"{counted} seed{'s' if len(effects) > 1 else ''}"
    if not known:
        nothing = Interval(math.nan, math.nan, -math.inf, math.inf)
        return Found(part, claim, unit, math.nan, [], nothing, spread, Verdict.UNSURE)
    found = interval_of(known, RESOLUTION[unit])
    return Found(part, claim, unit, found.mean, known, found, spread, _judge(found, bound, can_tell))


def judge_draws(
    part: str,
    claim: str,
    unit: str,
    effect: float,
    draws: np.ndarray,
    num_repositories: int,
    *,
    bound: float = 0.0,
    can_tell: bool = True,
) -> Found:
    """Judge an effect, float64[D] over draws of repositories; draws in which there is none are left out."""
    known = draws[np.isfinite(draws)]
    points = np.quantile(known, (CHANCE, 1 - CHANCE)) - np.median(known) if len(known) else (-math.inf, math.inf)
    ends = [effect + point for point in points]
    deviation = float(known.std()) if len(known) else math.nan
    found = Interval(effect, deviation, float(ends[0]), float(ends[1]))
    verdict = _judge(found, bound, can_tell and num_repositories >= LEAST_REPOSITORIES)
    return Found(part, claim, unit, effect, [], found, f"{num_repositories} repositories", verdict)


def _judge(found: Interval, bound: float, can_tell: bool) -> Verdict:
    if not can_tell:
        return Verdict.UNSURE
    if found.low > bound:
        return Verdict.HOLDS
    return Verdict.FAILS if found.high < bound else Verdict.UNSURE
