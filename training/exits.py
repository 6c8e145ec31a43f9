"""Exit codes of train.py, in one place; a launcher may start a run again on some of them and not on others."""

import signal

EXIT_OK = 0
"""The run is finished."""
EXIT_FAULT = 1
"""A fault of ours, with a traceback."""
EXIT_BAD_INPUT = 2
"""Settings, data, a checkpoint or a full disk must be mended first: one line says what and how. Starting again will not
help."""
EXIT_DIVERGED = 3
"""The loss or the gradient stayed non-finite for train.max_bad_steps steps. Starting again will not help."""
EXIT_STALLED = 75
"""No step within the watchdog's limit, or another process did not come or was lost (EX_TEMPFAIL of sysexits.h).
Starting all processes again goes on from the last checkpoint."""
EXIT_INTERRUPTED = 128 + signal.SIGINT
"""Ctrl-C, after saving where steps were taken. Starting again goes on from where it was."""
EXIT_TERMINATED = 128 + signal.SIGTERM
"""SIGTERM, likewise: what a scheduler sends before it takes a machine away."""
