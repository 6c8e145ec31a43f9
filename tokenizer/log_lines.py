"""What is logged while a command runs, one plain line each."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["print_warnings"]


@contextmanager
def print_warnings() -> Iterator[None]:
    """Within the block print what this package warns of as `warning: ...`, and leave it to no other handler."""
    logger, handler = logging.getLogger("tokenizer"), _WarningLines(logging.WARNING)
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


class _WarningLines(logging.Handler):
    """Prints to the standard error of the moment, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"warning: {record.getMessage()}", file=sys.stderr)
