"""What is waited for that is not on this machine: said in a log line, which commands print, before anybody wonders."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["MARK", "SILENT_SECONDS", "say_next_try", "say_silence", "say_when_silent"]

MARK = "waiting for "
"""How every line begins."""

# Shorter pauses are over before a line about them is read.
LEAST_PAUSE = 1.0
SILENT_SECONDS = 5.0

_logger = logging.getLogger("tokenizer.waiting")


def say_next_try(subject: str, fault: str, number: int, tries: int, pause: float) -> None:
    """Say that try `number` (from 1) has failed and when the next one comes, unless that is at once."""
    if pause >= LEAST_PAUSE:
        _logger.warning("%s%s: %s; try %d of %d, next in %g s", MARK, subject, fault, number, tries, pause)


def say_silence(subject: str, number: int, tries: int) -> None:
    """Say that SILENT_SECONDS have gone by in try `number` without an answer."""
    _logger.warning("%s%s: no answer in %g s; try %d of %d", MARK, subject, SILENT_SECONDS, number, tries)


@contextmanager
def say_when_silent(subject: str, number: int, tries: int) -> Iterator[None]:
    """Say it when the block takes so long."""
    timer = threading.Timer(SILENT_SECONDS, say_silence, (subject, number, tries))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
