"""What can go wrong in a run that its user can mend."""


class TrainingError(ValueError):
    """A run cannot start or go on; the message is one line that says what, where and how to mend it."""


class ConfigError(TrainingError):
    """A setting is unknown, of the wrong type or out of range."""


class CheckpointError(TrainingError):
    """A checkpoint does not belong to this run, or cannot be read."""


class NonFiniteError(TrainingError):
    """The loss or the gradient stayed non-finite for too many steps in a row."""
