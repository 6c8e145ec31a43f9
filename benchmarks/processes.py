"""Work in processes of their own, one after another, which end with the one that started them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from training.run import Run

__all__ = ["ROOT", "ProcessFailedError", "lock", "require_success", "run_logged"]

ROOT = Path(__file__).parents[1]
"""Of the repository: where commands are run."""
_ENDING = ROOT / "benchmarks" / "ending_with_parent.py"


class ProcessFailedError(Exception):
    """A process ended with an error, which it has told."""

    def __init__(self, code: int, command: Sequence[str]):
        super().__init__(f"{' '.join(command)} ended with exit code {code}; run the same command again to go on")
        self.code = code


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep a second process out of a folder.

    Raises:
        TrainingError: there is one.
    """
    held = Run(folder).lock()
    try:
        yield
    finally:
        held.close()


def run_logged(command: list[str], log: Path) -> int:
    """The exit code of a process that ends with this one, and which Ctrl-C reaches too; what it says goes to `log`."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    # On Linux only; elsewhere a process that is left has to be ended by hand.
    ending = [sys.executable, str(_ENDING), str(os.getpid())]
    with log.open("ab") as file:
        process = subprocess.Popen([*ending, *command], cwd=ROOT, stdout=file, stderr=file, env=environment)
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise


def require_success(code: int, command: list[str], log: Path) -> None:
    """Raise ProcessFailedError unless the code is 0, after showing the end of the log."""
    if code:
        told = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        print("\n".join(told), file=sys.stderr)
        raise ProcessFailedError(code, command)
