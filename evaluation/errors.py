"""What can go wrong in an evaluation that its user can mend."""


class EvaluationError(ValueError):
    """Something cannot be evaluated as asked; the message is one line that says what, where and how to mend it."""
