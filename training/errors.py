"""What can go wrong in a run that its user can mend."""

from typing import ClassVar

from training.exits import EXIT_BAD_INPUT, EXIT_DIVERGED


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
