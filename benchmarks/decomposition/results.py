"""Everything that the folder of results holds, put together: curves, outcomes, step times, findings."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.decomposition.arms import BASELINE, Arm, arms_of
from benchmarks.decomposition.curves import (
    Curve,
    RunRecord,
    Shape,
    bucket_seconds,
    late_loss,
    make_curve,
    reach,
    read_run,
)
from benchmarks.decomposition.findings import FINDINGS, Arms, Measured, Outcome, judge_finding
from benchmarks.decomposition.jobs import Job, timing_path
from benchmarks.decomposition.running import DIVERGED, is_done
from benchmarks.decomposition.scales import Scale, Setting
from benchmarks.decomposition.step_times import StepTimes, paired_medians, read_step_times
from benchmarks.machine import machine

__all__ = ["ArmResult", "SettingResult", "as_json", "gather"]

HOT_SUFFIX = "-hot"


class ArmResult(NamedTuple):
    """An arm of a setting, over seeds that are done."""

    arm: Arm
    learning_rate: float
    outcomes: dict[int, Outcome]
    curves: dict[int, Curve]
    positions: dict[int, list[list[float]]]
    """Of the last evaluation: first position, nats, tokens."""
    steps: int
    padding: float
    """Share of the places of all rows that hold no target."""


class SettingResult(NamedTuple):
    """All arms of a setting."""

    setting: Setting
    arms: dict[str, ArmResult]
    hot: dict[str, dict[int, float]]
    """Final held-out losses of runs at a high learning rate, by arm and seed; infinite where the loss did not stay
    finite."""
    step_seconds: dict[Shape, float]
    step_times: StepTimes | None
    """What `step_seconds` are of; None: medians of runs, as long as steps have not been timed in turns."""
    flops: dict[Shape, float]
    """Operations a token."""
    findings: list[Measured]
    missing: int
    """Runs that are not done."""


def gather(scale: Scale, jobs: Iterable[Job], hot: Iterable[Job], output: Path, vocab_size: int) -> list[SettingResult]:
    """The results of what is done so far."""
    jobs, hot = list(jobs), list(hot)
    return [_gather_setting(scale, setting, jobs, hot, output, vocab_size) for setting in scale.settings]


def _gather_setting(
    scale: Scale, setting: Setting, jobs: list[Job], hot: list[Job], output: Path, vocab_size: int
) -> SettingResult:
    own = [job for job in jobs if job.setting == setting]
    hot = [job for job in hot if job.setting == setting]
    records = {(job.arm.name, job.seed): record for job in own if (record := _read(job, output)) is not None}
    times = read_step_times(timing_path(setting, output))
    medians = {shape: median(values) for shape, values in bucket_seconds(records.values()).items()}
    if times is not None:
        medians |= {shape: value for shape, value in paired_medians(times.wall).items() if shape in medians}
    flops = {shape: _flops(scale, shape, vocab_size) for shape in medians}
    curves = {key: make_curve(record, medians) for key, record in records.items()}
    rates = {job.arm.name: job.learning_rate for job in own}
    arms = {}
    for arm in arms_of(scale, setting):
        found = {seed: record for (name, seed), record in records.items() if name == arm.name}
        if found:
            outcomes = {
                seed: _outcome(record, curves, (arm.name, seed), medians, flops, setting)
                for seed, record in found.items()
            }
            own_curves = {seed: curves[arm.name, seed] for seed in found}
            arms[arm.name] = _arm_result(scale, arm, rates[arm.name], outcomes, own_curves, found)
    hot_losses = _hot_losses(hot, output)
    seeds_of_arms = [_arms_of_seed(arms, hot_losses, seed) for seed in range(scale.seeds)]
    judged = (judge_finding(finding, setting, seeds_of_arms, can_tell=scale.can_tell) for finding in FINDINGS)
    missing = sum(not is_done(job, output) for job in [*own, *hot])
    return SettingResult(setting, arms, hot_losses, medians, times, flops, [one for one in judged if one], missing)


def _arm_result(
    scale: Scale,
    arm: Arm,
    rate: float,
    outcomes: dict[int, Outcome],
    curves: dict[int, Curve],
    records: Mapping[int, RunRecord],
) -> ArmResult:
    first = next(iter(records.values()))
    steps = len(first.shapes)
    padding = 1 - int(first.tokens[-1]) / (steps * scale.tokens_per_step)
    positions = {seed: record.evaluations[-1]["positions"] for seed, record in records.items()}
    return ArmResult(arm, rate, outcomes, curves, positions, steps, padding)


def _read(job: Job, output: Path) -> RunRecord | None:
    """Of a run that is done and has not diverged."""
    folder = job.folder(output)
    return read_run(folder) if is_done(job, output) and not (folder / DIVERGED).exists() else None


def _outcome(
    record: RunRecord,
    curves: Mapping[tuple[str, int], Curve],
    key: tuple[str, int],
    medians: Mapping[Shape, float],
    flops: Mapping[Shape, float],
    setting: Setting,
) -> Outcome:
    curve, base = curves[key], curves.get((BASELINE, key[1]))
    tokens_ratio = time_ratio = math.nan
    if base is not None:
        reached = reach(curve, float(base.losses[-1]))
        tokens_ratio, time_ratio = reached.tokens / base.tokens[-1], reached.seconds / base.seconds[-1]
    return Outcome(
        float(curve.losses[-1]),
        late_loss(record.evaluations[-1]["positions"], setting.context // 2),
        mean(medians[shape] for shape in record.shapes),
        mean(flops[shape] for shape in record.shapes),
        float(tokens_ratio),
        float(time_ratio),
        record.retrieval.get("repetition gain", math.nan),
        record.retrieval.get("documents choice", math.nan),
    )


def _flops(scale: Scale, shape: Shape, vocab_size: int) -> float:
    from model import LlamaConfig
    from model.counts import flops_per_token

    fields = scale.model | dict(_model_override(pair) for pair in scale.overrides if pair.startswith("model."))
    return flops_per_token(LlamaConfig(**fields), vocab_size, shape.length)


def _model_override(pair: str) -> tuple[str, Any]:
    from model import LlamaConfig
    from tokenizer.option_types import convert, option_types

    name, _, value = pair.removeprefix("model.").partition("=")
    return name, convert(value, option_types(LlamaConfig)[name])


def _hot_losses(jobs: Iterable[Job], output: Path) -> dict[str, dict[int, float]]:
    losses: dict[str, dict[int, float]] = {}
    for job in jobs:
        if is_done(job, output):
            record = _read(job, output)
            loss = None if record is None else record.evaluations[-1]["loss"]
            losses.setdefault(job.arm.name, {})[job.seed] = math.inf if loss is None else loss
    return losses


def _arms_of_seed(arms: Mapping[str, ArmResult], hot: Mapping[str, Mapping[int, float]], seed: int) -> Arms:
    found = {name: result.outcomes[seed] for name, result in arms.items() if seed in result.outcomes}
    rest = [math.nan] * 5
    return found | {f"{name}{HOT_SUFFIX}": Outcome(seeds[seed], *rest) for name, seeds in hot.items() if seed in seeds}


def as_json(scale: Scale, results: list[SettingResult]) -> dict[str, Any]:
    """results.json: all numbers, infinite and unknown ones as null."""
    return _plain({"scale": scale.identity(), "machine": machine(), "settings": [_setting(one) for one in results]})


def _setting(result: SettingResult) -> dict[str, Any]:
    shapes = [
        {
            "length": shape.length,
            "packed": shape.packed,
            "seconds": seconds,
            "flops_per_token": result.flops[shape],
            "turns": None if result.step_times is None else result.step_times.of(shape),
        }
        for shape, seconds in sorted(result.step_seconds.items())
    ]
    return {
        "setting": result.setting.name,
        "missing_runs": result.missing,
        "arms": {name: _arm(arm) for name, arm in result.arms.items()},
        "high_learning_rate": result.hot,
        "steps": shapes,
        "findings": [finding._asdict() | {"interval": finding.interval._asdict()} for finding in result.findings],
    }


def _arm(result: ArmResult) -> dict[str, Any]:
    return {
        "title": result.arm.title,
        "data": result.arm.data,
        "learning_rate": result.learning_rate,
        "steps": result.steps,
        "padding": result.padding,
        "seeds": {
            seed: {
                **result.outcomes[seed]._asdict(),
                "curve": result.curves[seed]._asdict(),
                "positions": result.positions[seed],
            }
            for seed in result.outcomes
        },
    }


def _plain(value: Any) -> Any:
    """JSON has neither arrays nor infinities."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
