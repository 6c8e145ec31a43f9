"""Jobs taken to their end, one process after another; what is done lies on disk and is not done again."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.decomposition.held_out import is_evaluated
from benchmarks.decomposition.jobs import RETRIEVAL, ROOT, Job, evaluation_command, retrieval_command, train_command
from benchmarks.decomposition.scales import Scale
from training.exits import EXIT_DIVERGED
from training.run import Run

__all__ = ["DIVERGED", "ArmFailedError", "commands_of", "is_done", "lock", "run_jobs"]

DIVERGED = "diverged.json"
"""In the folder of a run that ended because its loss was not finite."""
_PR_SET_PDEATHSIG = 1


class ArmFailedError(Exception):
    """A process of an arm ended with an error, which it has told."""

    def __init__(self, code: int, command: Sequence[str]):
        super().__init__(f"{' '.join(command)} ended with exit code {code}; run the same command again to go on")
        self.code = code


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
        ArmFailedError: a process failed; one that was stopped by Ctrl-C, too.
    """
    left = [job for job in jobs if not is_done(job, output)]
    for number, job in enumerate(left):
        tell(f"{number + 1} of {len(left)} runs to do: {job.title}")
        run_job(job, scale, output)


def run_job(job: Job, scale: Scale, output: Path) -> None:
    """Train and score one run; what train.py says goes to RUN.log."""
    folder = job.folder(output)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".log")
    train, *others = commands_of(job, scale, output)
    if Run(folder).finished_row(None) is None:
        code = _run(train, log)
        if code == EXIT_DIVERGED:
            (folder / DIVERGED).write_text(json.dumps({"exit": code}) + "\n", encoding="utf-8")
            return
        _require(code, train, log)
    for command in others:
        _require(_run(command, log), command, log)


def commands_of(job: Job, scale: Scale, output: Path) -> list[list[str]]:
    """The commands of a run, in their order; a short run is not asked of long contexts."""
    commands = [train_command(job, scale, output), evaluation_command(job, output)]
    return commands if job.short else [*commands, retrieval_command(job, scale, output)]


@contextmanager
def lock(output: Path) -> Iterator[None]:
    """Keep a second process out of the folder.

    Raises:
        TrainingError: there is one.
    """
    held = Run(output / "runs").lock()
    yield
    held.close()


def _run(command: list[str], log: Path) -> int:
    """The exit code of a process that ends with this one, and which Ctrl-C reaches too."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=file, env=environment, preexec_fn=_end_with_us
        )
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise


def _end_with_us() -> None:
    """On Linux the kernel ends a child when its parent is gone; elsewhere one that is left has to be ended by hand."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _require(code: int, command: list[str], log: Path) -> None:
    if code:
        told = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        print("\n".join(told), file=sys.stderr)
        raise ArmFailedError(code, command)
