"""Ctrl-C: one line and status 130, from the first import to the last line, whatever it comes into."""

import atexit
import os
import signal
import sys
from types import FrameType

__all__ = ["EXIT_INTERRUPTED", "end_on_interrupt", "interruptible", "undisturbed"]

EXIT_INTERRUPTED = 128 + signal.SIGINT
IMPORTS = "<frozen importlib._bootstrap>"


def end_on_interrupt(line: str = "interrupted") -> None:
    """Let Ctrl-C end this process at once with a line: for when there is nothing to clean up."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as a shell starts what goes on in the background
        signal.signal(signal.SIGINT, lambda number, frame: _end(line))


def _end(line: str) -> None:
    show_cursor = "\x1b[?25h" if sys.stderr is not None and sys.stderr.isatty() else ""  # a progress bar hides it
    try:
        os.write(2, f"{show_cursor}{line}\n".encode())
    finally:
        os._exit(EXIT_INTERRUPTED)


if sys.argv[:1] == ["-m"]:  # a command is being found: before contextlib and all that a command imports
    end_on_interrupt()
    # After all work Python takes itself down, and would let the signal kill it without a line.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)

import threading  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from typing import Any  # noqa: E402


@contextmanager
def interruptible(line: str) -> Iterator[None]:
    """Within the block the first Ctrl-C raises KeyboardInterrupt, where that gets anywhere.

    It ends the process at once, with the line, when it comes into an import, out of which C code makes other errors,
    or where Python would print it and go on (`__del__`, callbacks); and when it is the second one.
    """
    came = is_over = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came or _is_importing(frame):
            _end(line)
        came = True
        signal.default_int_handler(number, frame)

    def end_if_interrupted(unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt and not is_over:
            _end(line)
        hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, end_if_interrupted
    try:
        with _handler(interrupt):
            yield
    finally:
        is_over = True
        if sys.unraisablehook is end_if_interrupted:  # else what the block has put around it stays
            sys.unraisablehook = hook


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put Ctrl-C off to the end of the block, and keep it from processes that are started there, for good.

    The terminal sends it to every process of a command, and one that is still importing would print where it was.
    """
    came: list[tuple[int, FrameType | None]] = []
    before = signal.getsignal(signal.SIGINT)
    with _handler(lambda number, frame: came.append((number, frame))):
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if came and callable(before):
        before(*came[0])


@contextmanager
def _handler(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let a handler have Ctrl-C within the block, where Python lets us, and unless it is ignored."""
    before = signal.getsignal(signal.SIGINT)
    is_ours = threading.current_thread() is threading.main_thread() and before not in (None, signal.SIG_IGN)
    if is_ours:
        signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTS:
            return True
        frame = frame.f_back
    return False
