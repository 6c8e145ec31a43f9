"""A task tried a bounded number of times, wherever it runs: its result, or why there is none."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dataservice.errors import DataError, IngestError
from tokenizer.errors import TokenizerError

__all__ = ["MAX_TRIES", "Failure", "attempt", "killed"]

Task = TypeVar("Task")
Result = TypeVar("Result")

MAX_TRIES = 3
# Told by the task itself after it has tried: doing it again gives the same.
FINAL = (DataError, TokenizerError, OSError)


@dataclass(frozen=True)
class Failure:
    """Why a task has no result."""

    error: Exception
    tries: int


def attempt(function: Callable[[Task], Result], task: Task) -> "Result | Failure":
    """Call `function`, again when it fails in a way that it does not know (no memory, say)."""
    reason = ""
    for number in range(1, MAX_TRIES + 1):
        try:
            return function(task)
        except FINAL as error:
            return Failure(error, number)
        except Exception as error:
            reason = describe(error)
    return Failure(IngestError(reason), MAX_TRIES)


def killed(tries: int) -> Failure:
    """The failure of a task whose workers did not live to tell why."""
    return Failure(IngestError("a killed worker process (out of memory?)"), tries)


def describe(error: Exception) -> str:
    """One line about a fault that nobody foresaw: what, and where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__} {text} (line {place.lineno} of {place.name})"
