"""Asking a remote file system again when it does not answer, a bounded number of times."""

import time
from collections.abc import Callable
from typing import TypeVar

from tokenizer.errors import CorpusError, SourceError
from tokenizer.waiting import say_next_try, say_when_silent

__all__ = ["RETRY_PAUSES", "with_retries"]

Answer = TypeVar("Answer")

# A minute in all: longer than a server takes to restart, shorter than anybody waits for an answer.
RETRY_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
# What asking again cannot mend. Network libraries do not agree on a base class for what it can.
LASTING = (
    AttributeError,
    ImportError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
# Too Many Requests and Request Timeout pass, as every fault of a server (5xx) may.
PASSING_STATUSES = (408, 429)


def with_retries(action: Callable[[], Answer], url: str) -> Answer:
    """Return what `action` returns, asking again after dropped connections, timeouts and faults of the server.

    Raises SourceError, which names the URL and the last error, when asking again cannot help or has not helped.
    """
    tries = len(RETRY_PAUSES) + 1
    for number, pause in enumerate((*RETRY_PAUSES, None), 1):
        try:
            with say_when_silent(url, number, tries):
                return action()
        except CorpusError:
            raise
        except Exception as error:
            if not may_pass(error):
                raise SourceError(f"source must be readable, got {describe(error)}: {url}") from error
            if pause is None:
                raise SourceError(
                    f"source must answer, got {describe(error)} in the last of {tries} tries: {url}; "
                    "run again when it does"
                ) from error
            say_next_try(url, describe(error), number, tries, pause)
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def may_pass(error: Exception) -> bool:
    """Whether asking again may help: not where the answer is that a file is missing, forbidden or asked for wrongly."""
    answer = getattr(error, "response", None)
    statuses = getattr(error, "status", None), getattr(error, "code", None), getattr(answer, "status_code", None)
    status = next((status for status in statuses if isinstance(status, int)), None)
    if status is not None and 400 <= status < 500:
        return status in PASSING_STATUSES
    return not isinstance(error, LASTING)


def describe(error: BaseException) -> str:
    """An error in some words: those of timeouts have no text of their own."""
    text = str(error).partition("\n")[0].rstrip(".")
    return f"{type(error).__name__} {text}".rstrip()
