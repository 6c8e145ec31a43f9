"""The findings that are looked for, each an effect a seed with a bound and, where there is one, a target.

Written before anything was run. In every effect less is better for what the finding claims. Time is that of steps
alone, reckoned as in `curves.make_curve`; "concat" is concat-and-chunk at the full context.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.decomposition.arms import BASELINE, MAIN, SINGLE
from benchmarks.decomposition.scales import Setting
from benchmarks.verdicts import RESOLUTION, Interval, Verdict, interval_of, judge

__all__ = ["FINDINGS", "Finding", "Measured", "Outcome", "judge_finding"]


class Outcome(NamedTuple):
    """What one seed of an arm gives."""

    final_loss: float
    """Held-out, nats per token."""
    late_loss: float
    """The same at document positions from half of the context on."""
    mean_step: float
    """Seconds."""
    mean_flops: float
    """Operations a token."""
    tokens_ratio: float
    """Tokens until the concat baseline's final held-out loss of the same seed, over those of the baseline."""
    time_ratio: float
    """The same of time."""
    gain: float = math.nan
    """Nats per token by which a passage is easier when it stood in the context before; at half of the context."""
    answered: float = math.nan
    """Share of questions about one of several documents in the context whose right answer is the likeliest."""


Arms = dict[str, Outcome]
"""Outcomes of one seed by the names of arms; those of hot runs end with `-hot`."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim, and how it is measured."""

    claim: str
    effect: Callable[[Arms], float]
    """Of one seed; KeyError where an arm is not there."""
    unit: str = "nats"
    bound: float = 0.0
    target: Callable[[Setting], float | None] = lambda setting: None
    target_from: str = ""
    """Who names the target."""


class Measured(NamedTuple):
    """A finding in a setting."""

    setting: str
    claim: str
    unit: str
    effects: list[float]
    interval: Interval
    verdict: Verdict
    target: float | None
    target_from: str
    target_verdict: Verdict | None


def judge_finding(finding: Finding, setting: Setting, seeds: Sequence[Arms], *, can_tell: bool) -> Measured | None:
    """Measure and judge; None where no seed has all arms. Without `can_tell` all is too small to tell."""
    effects = []
    for arms in seeds:
        try:
            effect = finding.effect(arms)
        except KeyError:
            continue
        if not math.isnan(effect):
            effects.append(effect)
    if not effects:
        return None
    resolution, target = RESOLUTION[finding.unit], finding.target(setting)

    def verdict(bound: float) -> Verdict:
        return judge(effects, bound, resolution) if can_tell else Verdict.UNSURE

    of_target = None if target is None else verdict(target)
    where = finding.target_from if target is not None else ""
    found = interval_of(effects, resolution)
    return Measured(
        setting.name, finding.claim, finding.unit, effects, found, verdict(finding.bound), target, where, of_target
    )


def _lower(arm: str, *rivals: str) -> Callable[[Arms], float]:
    """Final held-out loss less that of the best rival; what has diverged is infinitely bad."""

    def effect(arms: Arms) -> float:
        return _difference(arms[arm].final_loss, min(arms[rival].final_loss for rival in rivals))

    return effect


def _difference(ours: float, theirs: float) -> float:
    if math.isinf(theirs):
        return 0.0 if math.isinf(ours) else -math.inf
    return ours - theirs


def _better_rival(arms: Arms) -> Outcome:
    return min((arms["masked"], arms["concat-quarter"]), key=lambda outcome: outcome.final_loss)


def _time_target(setting: Setting) -> float | None:
    if setting.documents == "whole":
        return 0.55 if setting.context == 2048 else None
    return {2048: 0.33, 4096: 0.3}.get(setting.context)


def _middle_length(arms: Arms) -> float:
    """The best length within, less the better of the shortest and the longest."""
    losses = {int(name.removeprefix(SINGLE)): arms[name].final_loss for name in arms if name.startswith(SINGLE)}
    if len(losses) < 3:
        raise KeyError(SINGLE)
    *within, longest = [losses[length] for length in sorted(losses)][1:]
    return min(within) - min(longest, losses[min(losses)])


FINDINGS = (
    Finding(
        claim="time to concat's final held-out loss, over concat's: decomposed, 8 cycles",
        effect=lambda arms: arms[MAIN].time_ratio,
        unit="ratio",
        bound=1.0,
        target=_time_target,
        target_from="set in advance",
    ),
    Finding(
        claim="tokens to concat's final held-out loss, over concat's: decomposed, 8 cycles",
        effect=lambda arms: arms[MAIN].tokens_ratio,
        unit="ratio",
        bound=1.0,
        target=lambda setting: 0.5,
        target_from="paper: under half",
    ),
    Finding(
        claim="time to concat's final held-out loss, over concat's: concat at a quarter of the context",
        effect=lambda arms: arms["concat-quarter"].time_ratio,
        unit="ratio",
        bound=1.0,
    ),
    Finding(
        claim="time to concat's final held-out loss, over concat's: best-fit packing + mask",
        effect=lambda arms: arms["packed"].time_ratio,
        unit="ratio",
        bound=1.0,
    ),
    Finding(claim="final loss: decomposed, 8 cycles, below concat", effect=_lower(MAIN, BASELINE)),
    Finding(
        claim="final loss: decomposed, 8 cycles, below the better of document mask and concat at a quarter",
        effect=_lower(MAIN, "masked", "concat-quarter"),
        target=lambda setting: -0.05,
        target_from="set in advance",
    ),
    Finding(
        claim="and no slower: mean step over that of this rival",
        effect=lambda arms: arms[MAIN].mean_step / _better_rival(arms).mean_step,
        unit="ratio",
        bound=1.0,
        target=lambda setting: 1.0,
        target_from="set in advance",
    ),
    Finding(claim="final loss: decomposed, 8 cycles, below best-fit packing + mask", effect=_lower(MAIN, "packed")),
    Finding(
        claim="final loss: concat at a quarter of the context below concat", effect=_lower("concat-quarter", BASELINE)
    ),
    Finding(claim="final loss: document mask below concat", effect=_lower("masked", BASELINE)),
    Finding(claim="final loss: best-fit packing + mask below document mask", effect=_lower("packed", "masked")),
    Finding(claim="final loss: decomposed, 8 cycles below 1 cycle", effect=_lower(MAIN, "decomposed-1")),
    Finding(
        claim="loss from half of the context on: decomposed, 8 cycles, below concat",
        effect=lambda arms: arms[MAIN].late_loss - arms[BASELINE].late_loss,
    ),
    Finding(
        claim="loss from half of the context on: decomposed, 8 cycles, below concat at a quarter of the context",
        effect=lambda arms: arms[MAIN].late_loss - arms["concat-quarter"].late_loss,
    ),
    Finding(
        claim="gain from a passage that stood in the context before: concat's less that of decomposed, 8 cycles",
        effect=lambda arms: arms[BASELINE].gain - arms[MAIN].gain,
    ),
    Finding(
        claim="right answers about one of several documents: concat's less those of decomposed, 8 cycles",
        effect=lambda arms: arms[BASELINE].answered - arms[MAIN].answered,
        unit="share",
    ),
    Finding(
        claim="mean step over concat's: decomposed, 8 cycles",
        effect=lambda arms: arms[MAIN].mean_step / arms[BASELINE].mean_step,
        unit="ratio",
        bound=1.0,
    ),
    Finding(
        claim="that ratio over the ratio of operations",
        effect=lambda arms: (
            (arms[MAIN].mean_step / arms[BASELINE].mean_step) / (arms[MAIN].mean_flops / arms[BASELINE].mean_flops)
        ),
        unit="ratio",
        bound=1.03,
        target=lambda setting: 1.03,
        target_from="set in advance, for 8k",
    ),
    Finding(
        claim="10 times the learning rate, no clipping, final loss: decomposed, 8 cycles, below concat",
        effect=_lower(f"{MAIN}-hot", f"{BASELINE}-hot"),
    ),
    Finding(
        claim="10 times the learning rate, no clipping, final loss: decomposed, grow-p100, below concat",
        effect=_lower("grow-p100-hot", f"{BASELINE}-hot"),
    ),
    Finding(claim="final loss: grow-p2 below uniform", effect=_lower(MAIN, "uniform")),
    Finding(claim="final loss: grow-p2 below shrink-p2", effect=_lower(MAIN, "shrink-p2")),
    Finding(claim="final loss: decomposed, 8 cycles, below GrowLength", effect=_lower(MAIN, "grow-length")),
    Finding(
        claim="final loss of rows of one length: one within below the shortest and the longest", effect=_middle_length
    ),
)
