"""The report in Markdown: findings first, then arms, steps by length and losses by position."""

import math
from collections.abc import Sequence
from statistics import mean, quantiles, stdev

from benchmarks.decomposition.arms import BASELINE
from benchmarks.decomposition.curves import Shape, longest
from benchmarks.decomposition.findings import Measured
from benchmarks.decomposition.results import ArmResult, SettingResult
from benchmarks.decomposition.scales import HOT, Scale, Setting
from benchmarks.decomposition.step_times import StepTimes, paired_medians
from benchmarks.machine import machine

__all__ = ["format_spread", "markdown_table", "report"]

TOO_SMALL = "**Too small to tell anything: these sizes only show that everything works.**"


def report(scale: Scale, results: Sequence[SettingResult], command: str) -> str:
    """The whole report."""
    missing = sum(result.missing for result in results)
    state = f"**Partial: {missing} runs are not done.** " if missing else ""
    lines = ["# Dataset decomposition against its rivals", ""]
    if not scale.can_tell:
        lines += [TOO_SMALL, ""]
    lines += [f"{state}`{command}` on {machine()}.", "", *_describe(scale), ""]
    for result in results:
        lines += [f"## {_title(result.setting)}", ""]
        lines += _setting(result, scale)
    return "\n".join(lines).rstrip() + "\n"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table.

    >>> markdown_table(["a", "b"], [["1", "2"]])
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    return (
        [f"| {' | '.join(row)} |" for row in (header,)]
        + ["|" + "---|" * len(header)]
        + [f"| {' | '.join(row)} |" for row in rows]
    )


def format_spread(values: Sequence[float], digits: int) -> str:
    """Mean and sample deviation over seeds; `never` of what no seed reaches.

    >>> format_spread([1.0, 3.0], 2), format_spread([0.5], 1), format_spread([math.inf, 1.0], 1)
    ('2.00 ± 1.41', '0.5', 'not in 1 of 2 seeds')
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "never" if values else "-"
    if len(finite) < len(values):
        return f"not in {len(values) - len(finite)} of {len(values)} seeds"
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def _title(setting: Setting) -> str:
    kind = "Whole documents" if setting.documents == "whole" else f"Documents of at most {setting.context:,} tokens"
    return f"{kind}, context {setting.context:,}"


def _describe(scale: Scale) -> list[str]:
    model = ", ".join(f"{name} {value}" for name, value in scale.model.items())
    rate = (
        f"the best of {', '.join(f'{rate:g}' for rate in scale.tried_rates)} for each arm (short runs)"
        if scale.tried_rates
        else f"{scale.learning_rate:g} for all"
    )
    more = f" Further settings: {' '.join(scale.overrides)}." if scale.overrides else ""
    return [
        f"Model: {model}; vocabulary {scale.vocab_size:,}. Every arm passes once over the same documents, "
        f"{scale.tokens:,} tokens at most, in steps of {scale.tokens_per_step:,} places; seeds "
        f"{', '.join(map(str, range(scale.seeds)))}; peak learning rate {rate}.{more} Held-out loss: "
        f"{scale.held_out_tokens:,} tokens at most of documents of other repositories, each predicted once from its "
        "document's own start, in windows of the longest rows that the arm was trained on. Seconds are of steps "
        "alone, without compiling, saving and evaluation: the steps of each shape times what such a step takes, timed "
        "in turns with all others. ± is the sample deviation over seeds.",
    ]


def _setting(result: SettingResult, scale: Scale) -> list[str]:
    lines = []
    if result.missing:
        lines += [f"{result.missing} runs are not done.", ""]
    if not result.arms:
        return lines
    lines += [*_findings(result.findings), "", *_arms(result), "", *_steps(result), "", *_positions(result), ""]
    if result.hot:
        rows = [[name, format_spread(list(losses.values()), 3)] for name, losses in result.hot.items()]
        lines += [f"Final held-out loss of short runs at {HOT:g} times the learning rate without clipping:", ""]
        lines += [*markdown_table(["arm", "nats"], rows), ""]
    return lines


def _findings(findings: Sequence[Measured]) -> list[str]:
    rows = []
    for found in findings:
        bounds = f"{found.interval.low:.3f} to {found.interval.high:.3f}"
        target = "-" if found.target is None else f"{found.target:g} ({found.target_from}): {_met(found)}"
        rows.append(
            [
                found.claim,
                format_spread(found.effects, 3),
                bounds if math.isfinite(found.interval.low) else "-",
                f"**{found.verdict}**",
                target,
            ]
        )
    return markdown_table(["finding", "effect", "interval", "verdict", "target"], rows)


def _met(found: Measured) -> str:
    words = {"holds": "met", "does not hold": "missed", "too small to tell": "not decided"}
    return words[str(found.target_verdict)]


def _arms(result: SettingResult) -> list[str]:
    header = ["arm", "held-out loss", "tokens to concat's", "time to concat's", "mean step, s", "over concat"]
    header += ["operations over concat", "steps", "padding", "gain from repetition"]
    base = result.arms.get(BASELINE)
    rows = [_arm(arm, base) for arm in result.arms.values()]
    return markdown_table(header, rows)


def _arm(result: ArmResult, base: ArmResult | None) -> list[str]:
    outcomes = list(result.outcomes.values())

    def over_base(name: str) -> str:
        if base is None:
            return "-"
        shared = [seed for seed in result.outcomes if seed in base.outcomes]
        ratios = [getattr(result.outcomes[seed], name) / getattr(base.outcomes[seed], name) for seed in shared]
        return format_spread(ratios, 2)

    known = [outcome for outcome in outcomes if not math.isnan(outcome.time_ratio)]
    return [
        result.arm.title,
        format_spread([outcome.final_loss for outcome in outcomes], 3),
        format_spread([outcome.tokens_ratio for outcome in known], 2),
        format_spread([outcome.time_ratio for outcome in known], 2),
        f"{mean(outcome.mean_step for outcome in outcomes):.3f}",
        over_base("mean_step"),
        over_base("mean_flops"),
        str(result.steps),
        f"{result.padding:.1%}",
        format_spread([outcome.gain for outcome in outcomes if not math.isnan(outcome.gain)], 3),
    ]


def _steps(result: SettingResult) -> list[str]:
    shapes = sorted(result.step_seconds)
    base, times = longest(shapes), result.step_times
    rows = []
    for shape in shapes:
        over = result.step_seconds[shape] / result.step_seconds[base]
        operations = f"{result.flops[shape] / result.flops[base]:.2f}"
        cells = [f"{result.step_seconds[shape]:.3f}", f"{over:.2f}"]
        cells += _turns(times, shape) if times is not None and shape in times.wall else ["-", "-", "-"]
        rows.append([f"{shape.length:,}{', segments' if shape.packed else ''}", *cells, operations])
    source = "timed in turns" if times is not None else "medians of runs, not yet timed in turns"
    note = f"Steps: {source}. Operations count causal attention over whole rows, also where segments are masked."
    header = ["rows", "step, s", "over longest", "quartiles", "CPU s", "CPU over longest", "operations over longest"]
    return [*markdown_table(header, rows), "", note]


def _turns(times: StepTimes, shape: Shape) -> list[str]:
    base = longest(times.wall)
    low, _, high = quantiles([a / b for a, b in zip(times.wall[shape], times.wall[base], strict=True)], n=4)
    cpu = paired_medians(times.cpu)
    return [f"{low:.2f} to {high:.2f}", f"{cpu[shape]:.3f}", f"{cpu[shape] / cpu[base]:.2f}"]


def _positions(result: SettingResult) -> list[str]:
    """Losses by position in the document, mean over seeds."""
    starts = sorted({int(row[0]) for arm in result.arms.values() for rows in arm.positions.values() for row in rows})
    starts = [start for start in starts if start >= 16] or starts

    def loss(arm: ArmResult, start: int) -> str:
        found = [nats / count for rows in arm.positions.values() for at, nats, count in rows if at == start and count]
        return f"{mean(found):.3f}" if found else "-"

    rows = [[arm.arm.title, *(loss(arm, start) for start in starts)] for arm in result.arms.values()]
    return markdown_table(["held-out loss at document position", *(f"{start:,}" for start in starts)], rows)
