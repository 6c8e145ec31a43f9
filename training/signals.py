"""Ctrl-C and SIGTERM: before the first step they end a run at once, then they ask it to save and end.

Light enough to be imported before all else.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from training.exits import EXIT_INTERRUPTED

_NOT_STEPPING = "no step was under way, so there was nothing to save"


class StopRequest:
    """Whether somebody asked this run to stop, and how.

    A second SIGTERM changes nothing, since launchers send several; Ctrl-C after any request ends the process at once,
    without saving.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._first: int | None = None

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells report it."""
        return 128 + (self.signal or 0)

    def at(self, step: int) -> bool:
        """Whether to stop after this step; all processes of a run get the same answer at the same step."""
        import jax

        if jax.process_count() == 1:
            return self.signal is not None
        from jax.experimental import multihost_utils

        if multihost_utils.reached_preemption_sync_point(step):
            self.signal = self._first or signal.SIGTERM
            return True
        return False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        import jax

        if self._first is not None:
            if number == signal.SIGINT:
                try:
                    os.write(2, b"\ninterrupted again, without saving; the run goes on from its last checkpoint\n")
                finally:
                    os._exit(EXIT_INTERRUPTED)
            return
        self._first = number
        if jax.process_count() == 1:
            self.signal = number
        else:  # jax's own handler of SIGTERM tells the others, so that all stop at one step
            os.kill(os.getpid(), signal.SIGTERM)


def end_on_signals() -> None:
    """Let Ctrl-C and SIGTERM end this process at once, wherever it is; the next start makes again what it was making.

    Python's own KeyboardInterrupt is lost when it comes within one of jax's callbacks. Every file is written beside its
    place and renamed, so nothing is left half-written. What is ignored stays so, as a shell starts things in the
    background. With several processes jax takes SIGTERM over from here on, and it is answered at the first step.
    """

    def end(number: int, frame: FrameType | None) -> None:
        show_cursor = "\x1b[?25h" if sys.stderr is not None and sys.stderr.isatty() else ""
        word = "interrupted" if number == signal.SIGINT else "terminated"
        try:
            os.write(2, f"{show_cursor}\n{word}; run the same command again to go on ({_NOT_STEPPING})\n".encode())
        finally:
            os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM within the block, which has to end with everything saved."""
    import jax

    request = StopRequest()
    caught = [signal.SIGINT] + ([signal.SIGTERM] if jax.process_count() == 1 else [])
    before = {number: signal.signal(number, request._receive) for number in caught}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
