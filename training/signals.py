"""Ctrl-C and SIGTERM ask a run to save and end; a second Ctrl-C ends it at once."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_INTERRUPTED = 128 + signal.SIGINT


class StopRequest:
    """Whether somebody asked this run to stop, and how."""

    def __init__(self) -> None:
        self.signal: int | None = None

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
            self.signal = self.signal or signal.SIGTERM
            return True
        return False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            os._exit(EXIT_INTERRUPTED)
        self.signal = number


def end_on_interrupt() -> None:
    """Let Ctrl-C end this process at once, wherever it is; what it was making is made again by the next start.

    Python's own KeyboardInterrupt is lost when it comes within one of jax's callbacks. Every file is written beside its
    place and renamed, so nothing is left half-written.
    """

    def end(number: int, frame: FrameType | None) -> None:
        show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
        os.write(2, f"{show_cursor}\ninterrupted; run the same command again to go on\n".encode())
        os._exit(EXIT_INTERRUPTED)

    signal.signal(signal.SIGINT, end)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM within the block."""
    import jax

    request = StopRequest()
    # With several processes, jax's own handler of SIGTERM tells the others.
    caught = [signal.SIGINT] + ([signal.SIGTERM] if jax.process_count() == 1 else [])
    before = {number: signal.signal(number, request._receive) for number in caught}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
