"""Run as a script: becomes the command of its arguments, which on Linux the kernel ends when the parent is gone.

A `preexec_fn` would do the same, but forks a process in which JAX has threads; that may hang.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execvp(sys.argv[1], sys.argv[1:])
