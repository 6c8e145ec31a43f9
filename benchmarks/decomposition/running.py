"""Jobs taken to their end, one process after another; what is done lies on disk and is not done again."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.decomposition.held_out import is_evaluated
from benchmarks.decomposition.jobs import (
    RETRIEVAL,
    Job,
    evaluation_command,
    retrieval_command,
    timing_command,
    timing_path,
    train_command,
)
from benchmarks.decomposition.scales import Scale, Setting
from benchmarks.processes import require_success, run_logged
from training.exits import EXIT_DIVERGED
from training.run import Run

__all__ = ["DIVERGED", "commands_of", "is_done", "run_jobs", "time_steps"]

DIVERGED = "diverged.json"
"""In the folder of a run that ended because its loss was not finite."""


def is_done(job: Job, output: Path) -> bool:
    """Whether the run is finished (or has diverged), its checkpoints are scored and it was asked of long contexts."""
    folder = job.folder(output)
    if (folder / DIVERGED).exists():
        return True
    last = Run(folder).finished_row(None)
    return last is not None and is_evaluated(folder, last["step"]) and (job.short or (folder / RETRIEVAL).exists())


def run_jobs(jobs: Sequence[Job], scale: Scale, output: Path, tell: Callable[[str], None]) -> None:
    """Train and score what is not done.

    Raises:
        ProcessFailedError: a process failed; one that was stopped by Ctrl-C, too.
    """
    left = [job for job in jobs if not is_done(job, output)]
    for number, job in enumerate(left):
        tell(f"{number + 1} of {len(left)} runs to do: {job.title}")
        run_job(job, scale, output)


def time_steps(setting: Setting, scale: Scale, output: Path, tell: Callable[[str], None]) -> None:
    """Time the steps of a setting's arms, if that was not done.

    Raises:
        ProcessFailedError: the process failed.
    """
    path = timing_path(setting, output)
    if not path.exists():
        tell(f"step times: {setting.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        command, log = timing_command(setting, scale, output), path.with_suffix(".log")
        require_success(run_logged(command, log), command, log)


def run_job(job: Job, scale: Scale, output: Path) -> None:
    """Train and score one run; what train.py says goes to RUN.log."""
    folder = job.folder(output)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".log")
    train, *others = commands_of(job, scale, output)
    if Run(folder).finished_row(None) is None:
        code = run_logged(train, log)
        if code == EXIT_DIVERGED:
            (folder / DIVERGED).write_text(json.dumps({"exit": code}) + "\n", encoding="utf-8")
            return
        require_success(code, train, log)
    for command in others:
        require_success(run_logged(command, log), command, log)


def commands_of(job: Job, scale: Scale, output: Path) -> list[list[str]]:
    """The commands of a run, in their order; a short run is not asked of long contexts."""
    commands = [train_command(job, scale, output), evaluation_command(job, output)]
    return commands if job.short else [*commands, retrieval_command(job, scale, output)]
