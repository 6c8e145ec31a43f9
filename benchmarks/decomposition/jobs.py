"""Jobs: one run of train.py each, with its folder and its exact command."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.decomposition.arms import Arm, arms_of, longest_row, settings_of_arm
from benchmarks.decomposition.documents import haystack_path, held_out_path, store_path
from benchmarks.decomposition.scales import HOT, SHORT, Scale, Setting
from benchmarks.processes import ROOT

__all__ = [
    "Job",
    "base_config",
    "evaluation_command",
    "hot_jobs",
    "main_jobs",
    "retrieval_command",
    "timing_command",
    "timing_path",
    "train_command",
    "trial_jobs",
]

BASE = "base.yaml"
RETRIEVAL = "retrieval.json"
"""In the folder of a run: what `python -m evaluation longcontext` says."""


class Job(NamedTuple):
    """An arm trained with a seed."""

    setting: Setting
    arm: Arm
    seed: int
    learning_rate: float
    short: bool = False
    """On the smaller store."""
    clips: bool = True

    def folder(self, output: Path) -> Path:
        """Of its run."""
        kind = self.setting.name + ("-short" if self.short else "")
        rate = f"-rate-{self.learning_rate:g}" if self.short else ""
        hot = "" if self.clips else "-no-clipping"
        return output / "runs" / kind / f"{self.arm.name}{rate}{hot}" / f"seed-{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.setting.name}, {self.arm.name}, seed {self.seed}" + (
            f", learning rate {self.learning_rate:g}" if self.short else ""
        )


def main_jobs(scale: Scale, rates: dict[tuple[Setting, str], float]) -> Iterator[Job]:
    """A seed of everything before the next, so that what there is can be compared at any time.

    `rates` has the learning rates of (setting, arm) where they are not that of the scale.
    """
    for seed in range(scale.seeds):
        for setting in scale.settings:
            for arm in arms_of(scale, setting):
                yield Job(setting, arm, seed, rates.get((setting, arm.name), scale.learning_rate))


def trial_jobs(scale: Scale) -> Iterator[Job]:
    """Short runs that choose each arm's learning rate."""
    for setting in scale.settings if scale.tried_rates else ():
        for arm in arms_of(scale, setting):
            for rate in scale.tried_rates:
                yield Job(setting, arm, 0, rate, short=True)


def hot_jobs(scale: Scale) -> Iterator[Job]:
    """Short runs at HOT times the learning rate without clipping, in the first setting."""
    setting = scale.settings[0]
    for seed in range(scale.seeds):
        for arm in arms_of(scale, setting):
            if arm.name in scale.hot_arms:
                yield Job(setting, arm, seed, HOT * scale.learning_rate, short=True, clips=False)


def base_config(scale: Scale) -> dict[str, Any]:
    """What DIR/base.yaml says: everything that all runs share."""
    warmup = max(1, scale.num_steps // 10)
    return {
        "model": scale.model,
        "optimizer": {"warmup_steps": warmup, "learning_rate": scale.learning_rate},
        "train": {"log_every": 1, "evaluate_batches": 0, "keep_checkpoints": 1, "tensorboard": False},
    }


def train_command(job: Job, scale: Scale, output: Path) -> list[str]:
    """`python train.py DIR/base.yaml key=value ...`, to be run in the root of the repository."""
    steps = scale.num_steps // (SHORT if job.short else 1)
    every = max(1, steps // scale.evaluations)
    settings: dict[str, Any] = {
        "data.store": store_path(output, job.setting, short=job.short),
        **{f"data.{name}": value for name, value in settings_of_arm(job.arm, scale, job.setting).items()},
        "data.seed": job.seed,
        "train.seed": job.seed,
        "train.checkpoint_every": every,
        "train.keep_every": every,
        "optimizer.learning_rate": f"{job.learning_rate:g}",
        **({"optimizer.warmup_steps": max(1, steps // 10)} if job.short else {}),
        **({} if job.clips else {"optimizer.clip_norm": 0}),
        "train.run": job.folder(output),
    }
    pairs = [f"{name}={_spell(value)}" for name, value in settings.items()]
    return [sys.executable, str(ROOT / "train.py"), str(output / BASE), *pairs, *scale.overrides]


def evaluation_command(job: Job, output: Path) -> list[str]:
    """What scores the held-out sequences with every checkpoint of the run."""
    window = longest_row(job.arm, job.setting)
    module = [sys.executable, "-m", "benchmarks.decomposition.held_out", str(job.folder(output))]
    return [*module, "--sequences", str(held_out_path(output, job.setting)), "--window", str(window)]


def retrieval_command(job: Job, scale: Scale, output: Path) -> list[str]:
    """What asks the final model of distant context, at half of that of the setting.

    Of documents that fit into a row of the context, decomposed rows have half of it at most.
    """
    options = {
        "on": haystack_path(output),
        "task": ",".join(scale.retrieval_tasks),
        "lengths": job.setting.context // 2,
        "depths": "0,0.5,1",
        "samples": scale.retrieval_samples,
        "json": job.folder(output) / RETRIEVAL,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "evaluation", "longcontext", str(job.folder(output)), *words]


def timing_path(setting: Setting, output: Path) -> Path:
    """Of what the steps of a setting take."""
    return output / "step_times" / f"{setting.name}.json"


def timing_command(setting: Setting, scale: Scale, output: Path) -> list[str]:
    """What times the steps of all arms of a setting in turns."""
    jobs = [Job(setting, arm, 0, scale.learning_rate) for arm in arms_of(scale, setting)]
    arms = [json.dumps(train_command(job, scale, output)[2:]) for job in jobs]
    module = [sys.executable, "-m", "benchmarks.decomposition.step_times"]
    return [*module, str(timing_path(setting, output)), *arms]


def _spell(value: Any) -> str:
    """As the command line of train.py reads it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {item}" for key, item in value.items()) + "}"
    return str(value)
