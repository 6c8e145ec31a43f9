"""Progress of long work, shown as a bar on a terminal and as a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

__all__ = ["Progress", "show_progress"]

Progress = Callable[..., None]
"""``progress(phase, done, total, note="")``: ``total`` may be None when it is not known."""

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def show_progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """Yield ``progress(phase: str, done: int, total: int | None, note: str = "")``, which shows what it is told.

    A new phase starts a new bar (on a terminal) or is announced by a line (elsewhere); ``done == total`` ends a phase.
    """
    output: TextIO = stream or sys.stderr
    if not output.isatty():
        yield ProgressLines(output)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Bars(*columns, console=Console(file=output)) as bars:
        tasks = {}

        def progress(phase: str, done: int, total: int | None, note: str = "") -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total, note=note)
            bars.update(tasks[phase], completed=done, total=total, note=note)

        yield progress


class ProgressLines:
    """Progress as plain lines, at least ``SECONDS_BETWEEN_LINES`` apart but for the first and last of a phase."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._phase = ""
        self._line = ""
        self._time = 0.0

    def __call__(self, phase: str, done: int, total: int | None, note: str = "") -> None:
        now = self._clock()
        is_new = phase != self._phase
        if not is_new and done != total and now - self._time < SECONDS_BETWEEN_LINES:
            return
        count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        line = f"{phase}: {count}" + (f" ({note})" if note else "")
        self._phase, self._time = phase, now
        if line != self._line:
            self._line = line
            with suppress(BrokenPipeError):  # nobody watches; the work goes on
                print(line, file=self._stream, flush=True)
