"""The exception of the model package."""


class ModelError(ValueError):
    """A model setting, shape or device that cannot be used; the message is one line and says how to mend it."""
