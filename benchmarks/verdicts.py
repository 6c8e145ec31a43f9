"""The rule by which a finding holds, does not hold, or is too small to tell. Written before anything was run.

An effect is measured once a seed, arms with the same seed against each other, and so that less is better: a difference
of losses or a ratio. With n seeds of mean m and sample deviation s its interval is

    m - t max(s, r) / sqrt(n)  to  m + t max(s, r) / sqrt(n),

t being the 90% point of Student's distribution with n - 1 degrees of freedom (3.08 for two seeds, 1.89 for three), so
that each end is passed with a chance of 10% where nothing is there; r, the resolution, keeps two seeds that agree by
luck from passing for certainty: RESOLUTION of each unit is what the same arm with other seeds moves by at least. The
finding holds if the whole interval is below the bound (0 of a difference, 1 of a ratio), it does not hold if the whole
interval is above, and otherwise the comparison is too small to tell. A loss that no seed reaches is a finding that does
not hold; one that some seeds reach is too small to tell. One seed tells nothing. A target is judged by the same rule
with itself as the bound: met, missed, or not decided.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from statistics import mean, stdev
from typing import NamedTuple

__all__ = ["CHANCE", "RESOLUTION", "Interval", "Verdict", "interval_of", "judge"]

RESOLUTION = {"nats": 0.01, "ratio": 0.02, "share": 0.05}
"""Least deviation over seeds that is believed."""
CHANCE = 0.1
"""Of passing an end of an interval where nothing is there."""


class Verdict(StrEnum):
    """What the seeds say together."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNSURE = "too small to tell"


class Interval(NamedTuple):
    """An effect over seeds."""

    mean: float
    deviation: float
    """Sample deviation over seeds; NaN of one."""
    low: float
    high: float


def interval_of(effects: Sequence[float], resolution: float) -> Interval:
    """Mean, deviation and interval of effects, one a seed; infinite where one is.

    Two seeds with 1 and 3 (deviation 1.414): t = 3.078, so 2 - 3.078 to 2 + 3.078.
    """
    if not all(map(math.isfinite, effects)):
        return Interval(math.inf, math.nan, -math.inf, math.inf)
    middle, count = mean(effects), len(effects)
    if count < 2:
        return Interval(middle, math.nan, -math.inf, math.inf)
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    deviation = stdev(effects)
    half = float(stdtrit(count - 1, 1 - CHANCE)) * max(deviation, resolution) / math.sqrt(count)
    return Interval(middle, deviation, middle - half, middle + half)


def judge(effects: Sequence[float], bound: float, resolution: float) -> Verdict:
    """Whether effects, one a seed, are below the bound."""
    if len(effects) > 1 and len(set(effects)) == 1 and math.isinf(effects[0]):
        return Verdict.FAILS if effects[0] > 0 else Verdict.HOLDS
    found = interval_of(effects, resolution)
    if found.high < bound:
        return Verdict.HOLDS
    return Verdict.FAILS if found.low > bound else Verdict.UNSURE
