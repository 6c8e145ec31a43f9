"""Exit codes of train.py, in one place; a launcher may start a run again on some of them and not on others."""

import signal

EXIT_OK = 0
"""The run is finished."""
EXIT_BAD_INPUT = 2
"""Settings, data or a checkpoint must be mended first: one line says what and how. Starting again will not help."""
EXIT_DIVERGED = 3
"""The loss or the gradient stayed non-finite for train.max_bad_steps steps. Starting again will not help."""
EXIT_STALLED = 75
"""No step within the watchdog's limit, or another process of the run was lost (EX_TEMPFAIL of sysexits.h). Starting
all processes again goes on from the last checkpoint."""
EXIT_INTERRUPTED = 128 + signal.SIGINT
"""Ctrl-C. As with every signal, 128 + its number: SIGTERM is 143. Starting again goes on from where it was."""
