"""What can go wrong in a run that its user can mend."""

import errno
from typing import ClassVar

from training.exits import EXIT_BAD_INPUT, EXIT_DIVERGED, EXIT_FAULT, EXIT_STALLED


class TrainingError(ValueError):
    """A run cannot start or go on; the message is one line that says what, where and how to mend it."""

    exit_code: ClassVar[int] = EXIT_BAD_INPUT


class ConfigError(TrainingError):
    """A setting is unknown, of the wrong type or out of range."""


class CheckpointError(TrainingError):
    """A checkpoint does not belong to this run, or cannot be read."""


class NonFiniteError(TrainingError):
    """The loss or the gradient stayed non-finite for too many steps in a row."""

    exit_code = EXIT_DIVERGED


class LostProcessError(TrainingError):
    """Another process of the run no longer takes part."""

    exit_code = EXIT_STALLED


_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


def explain(error: Exception) -> tuple[str | None, int]:
    """The line and the exit code for an error that a user can mend; no line for a fault of ours."""
    if any(
        kind.__name__ in ("TokenizerError", "DataError", "ModelError", "TrainingError") for kind in type(error).mro()
    ):
        return str(error), getattr(error, "exit_code", EXIT_BAD_INPUT)
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        place = "" if error.filename is None else f" for {error.filename}"
        mend = "make room and run the same command again"
        return f"disk must take what the run writes, got {error.strerror}{place}; {mend}", EXIT_BAD_INPUT
    return None, EXIT_FAULT
