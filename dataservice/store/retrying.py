"""Asking again after faults that may pass: with growing pauses, and not for ever."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TypeVar

from dataservice.errors import StoreError, WaitCancelledError

__all__ = ["Patience", "TransientError", "in_this_context", "persist", "while_wanted"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")

POLL_SECONDS = 0.1
# Of whoever called, however many calls lie between: every kind of store would else hand it on.
_is_cancelled: ContextVar[Callable[[], bool]] = ContextVar("is_cancelled", default=lambda: False)


class TransientError(Exception):
    """A fault that may pass, in one line: no answer, a cut connection, bytes damaged on the way."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often to try, the seconds between tries (doubled each time up to the longest), and those for one try."""

    tries: int = 11
    first_pause: float = 0.1
    longest_pause: float = 10.0
    timeout: float = 60.0

    def pause(self, number: int) -> float:
        """Seconds to wait after try `number`, from 0."""
        return min(self.first_pause * 2**number, self.longest_pause)


def persist(
    attempt: Callable[[], Result], patience: Patience, give_up: Callable[[TransientError], StoreError]
) -> Result:
    """The result of the first attempt without a TransientError; else raises what `give_up` makes of the last one.

    Within `while_wanted` it raises WaitCancelledError soon after nobody wants the result any more, which is looked
    after between two attempts.
    """
    fault = TransientError("nothing was tried")
    for number in range(patience.tries):
        if number:
            _pause(patience.pause(number - 1), fault)
        try:
            return attempt()
        except TransientError as error:
            fault = error
    raise give_up(fault) from fault


@contextmanager
def while_wanted(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Within the block, no longer ask again in vain once `is_cancelled` is true."""
    token = _is_cancelled.set(is_cancelled)
    try:
        yield
    finally:
        _is_cancelled.reset(token)


def in_this_context(function: Callable[[Argument], Result]) -> Callable[[Argument], Result]:
    """The function, which in any thread knows by whom it is wanted here."""
    context = copy_context()
    # A copy for each call, since no two threads may be in one context.
    return lambda argument: context.copy().run(function, argument)


def _pause(seconds: float, fault: TransientError) -> None:
    is_cancelled, end = _is_cancelled.get(), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if is_cancelled():
            raise WaitCancelledError(f"answer must come, got nobody who waits for it after {fault}")
        time.sleep(min(left, POLL_SECONDS))
