"""Asking again after faults that may pass: with growing pauses, not for ever, and not when nobody waits any more."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from dataservice.errors import StoreError, WaitCancelledError
from tokenizer.waiting import SILENT_SECONDS, say_next_try, say_silence

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
    subject: str, attempt: Callable[[], Result], patience: Patience, give_up: Callable[[TransientError], StoreError]
) -> Result:
    """The result of the first attempt without a TransientError; else raises what `give_up` makes of the last one.

    Within `while_wanted` it raises WaitCancelledError soon after nobody wants the result any more, also in an attempt,
    which is then left to end by itself. That it waits for `subject` is said.
    """
    fault = TransientError("nothing was tried")
    for number in range(1, patience.tries + 1):
        if number > 1:
            pause = patience.pause(number - 2)
            say_next_try(subject, str(fault), number - 1, patience.tries, pause)
            _pause(pause, fault)
        try:
            return _attempt_while_wanted(attempt, partial(say_silence, subject, number, patience.tries))
        except TransientError as error:
            fault = error
    raise give_up(fault) from fault


@contextmanager
def while_wanted(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Within the block, no longer wait for answers once `is_cancelled` is true."""
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


def _attempt_while_wanted(attempt: Callable[[], Result], say_silence: Callable[[], None]) -> Result:
    """What an attempt returns, which has a thread of its own: out of a call of gRPC, or of a socket, leads no way.

    The thread takes 0.1 to 0.2 ms; calls for tokens are of 4 MB, and there are four at once.
    """
    outcomes: SimpleQueue[tuple[Result | None, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            outcomes.put((attempt(), None))
        except BaseException as error:
            outcomes.put((None, error))

    # Nobody waits for it when Python ends.
    threading.Thread(target=copy_context().run, args=(work,), daemon=True).start()
    silent_at = time.monotonic() + SILENT_SECONDS
    while True:
        try:
            result, error = outcomes.get(timeout=POLL_SECONDS)
        except Empty:
            _refuse_if_unwanted("no answer so far")
            if time.monotonic() > silent_at:
                silent_at = float("inf")
                say_silence()
            continue
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


def _pause(seconds: float, fault: TransientError) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _refuse_if_unwanted(str(fault))
        time.sleep(min(left, POLL_SECONDS))


def _refuse_if_unwanted(state: str) -> None:
    if _is_cancelled.get()():
        raise WaitCancelledError(f"answer must come, got nobody who waits for it after {state}")
