"""The watchdog: a run that no longer comes forward says where it hangs and ends, so that it can be started again."""

import faulthandler
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import jax

from training.companions import end_together
from training.errors import LostProcessError
from training.exits import EXIT_STALLED
from training.phases import Kind, Phases
from training.settings import TrainConfig

# Of several processes one may hang in the file system that another writes its stacks to.
_SECONDS_TO_WRITE = 20.0


class Limits(NamedTuple):
    """Seconds that a phase may last without a sign of life; 0: for ever."""

    seconds: float
    """Of a step, a batch of an evaluation, or a wait for a batch."""
    step_factor: float
    """Or this many median steps, if that is longer."""
    long_seconds: float
    """Of what takes long by nature: compiling, restoring, saving, closing, waiting for documents in the making."""

    def of(self, phases: Phases) -> float:
        """The limit of the current phase.

        Making a tokenizer and a store has none: it takes as long as the corpus is large, in processes that are looked
        after by the data service.
        """
        kind = phases.current.kind
        if kind == Kind.START:
            return 0.0
        if kind not in (Kind.STEP, Kind.DATA, Kind.EVALUATE) or phases.waits_for_documents:
            return self.long_seconds
        return self.seconds and max(self.seconds, self.step_factor * phases.median_step_seconds)


@contextmanager
def watch(phases: Phases, folder: Path, config: TrainConfig) -> Iterator[None]:
    """Within the block, end the process with EXIT_STALLED when a phase lasts longer than its limit.

    It ends at once, since what hangs cannot be asked to stop: stacks of all Python threads go to stderr and to
    FOLDER/stacks.txt (stacks-N.txt of process N), and a line says in what it hung. The last checkpoint stays.
    """
    limits = Limits(config.watchdog_seconds, config.watchdog_factor, config.watchdog_long_seconds)
    used = [limit for limit in (limits.seconds, limits.long_seconds) if limit]
    if not used:
        yield
        return
    ended = threading.Event()
    arguments = (phases, limits, stacks_path(folder), ended, min(*used, 50.0) / 10)
    thread = threading.Thread(target=_look, args=arguments, name="watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def stacks_path(folder: Path) -> Path:
    """Where this process leaves its stacks."""
    index = jax.process_index()
    return folder / (f"stacks-{index}.txt" if index else "stacks.txt")


@contextmanager
def explain_lost_processes(phases: Phases) -> Iterator[None]:
    """Within the block, tell what a collective says when another process of the run is gone.

    Raises:
        LostProcessError: with what was going on.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).splitlines()[0]
        if jax.process_count() == 1 or not any(sign in reason for sign in _SIGNS_OF_LOSS):
            raise
        raise LostProcessError(
            f"processes must all take part, got {reason!r} {phases.current}; look at what the others say, and start "
            "all of them again to go on from the last checkpoint"
        ) from error


_SIGNS_OF_LOSS = ("ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "Gloo", "NCCL", "UNAVAILABLE", "closed by peer")


def _look(phases: Phases, limits: Limits, path: Path, ended: threading.Event, pause: float) -> None:
    while not ended.wait(pause):
        phase, elapsed, limit = phases.current, phases.elapsed, limits.of(phases)
        # Of another phase that began meanwhile, neither the time nor the limit would be right.
        if limit and elapsed > limit and phases.current is phase:
            setting = "watchdog_long_seconds" if limit == limits.long_seconds else "watchdog_seconds"
            _end(
                f"run must come forward within {limit:g} s, got {elapsed:.1f} s {phase}; stacks are in {path}; "
                f"start all processes again to go on from the last checkpoint, or raise train.{setting}",
                path,
            )


def _end(line: str, path: Path) -> None:
    """Leave the stacks, say why, and end without waiting for anything that may hang itself."""
    threading.Timer(_SECONDS_TO_WRITE, os._exit, (EXIT_STALLED,)).start()
    show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
    faulthandler.dump_traceback(2)
    os.write(2, f"{show_cursor}\nerror: {line}\n".encode())
    with suppress(OSError), path.open("w", encoding="utf-8") as file:
        print(line, file=file, flush=True)
        faulthandler.dump_traceback(file)
    os._exit(end_together(line, EXIT_STALLED))
