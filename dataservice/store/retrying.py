"""Asking again after faults that may pass: with growing pauses, and not for ever."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dataservice.errors import StoreError

__all__ = ["Patience", "TransientError", "persist"]

Result = TypeVar("Result")


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
    """The result of the first attempt without a TransientError; else raises what `give_up` makes of the last one."""
    fault = TransientError("nothing was tried")
    for number in range(patience.tries):
        if number:
            time.sleep(patience.pause(number - 1))
        try:
            return attempt()
        except TransientError as error:
            fault = error
    raise give_up(fault) from fault
