"""A run: settings, optimizer, compiled steps, checkpoints, metrics and held-out loss."""

# Before all else: from here on, Ctrl-C ends a command in one line.
from tokenizer import interrupts as _interrupts  # noqa: F401
