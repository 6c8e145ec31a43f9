"""Learning rates of arms, chosen by short runs where a scale tries several."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.decomposition.held_out import read_results
from benchmarks.decomposition.jobs import Job, trial_jobs
from benchmarks.decomposition.scales import Scale, Setting

__all__ = ["Rates", "choose_rate", "chosen_rates"]


class Rates(NamedTuple):
    """Learning rates, and the short runs that chose them."""

    trials: list[Job]
    chosen: dict[tuple[Setting, str], float]
    """Of (setting, arm)."""


def chosen_rates(scale: Scale, output: Path) -> Rates:
    """The learning rate of each arm, where short runs choose it."""
    trials = list(trial_jobs(scale))
    by_arm: dict[tuple[Setting, str], list[Job]] = {}
    for job in trials:
        by_arm.setdefault((job.setting, job.arm.name), []).append(job)
    return Rates(trials, {key: choose_rate(jobs, output) for key, jobs in by_arm.items()})


def choose_rate(trials: Sequence[Job], output: Path) -> float:
    """The learning rate whose short run ends with the lowest held-out loss."""
    losses = {}
    for job in trials:
        rows = read_results(job.folder(output))
        if rows and rows[-1]["loss"] is not None:
            losses[job.learning_rate] = rows[-1]["loss"]
    return min(losses, key=losses.__getitem__) if losses else min(job.learning_rate for job in trials)
