"""Run as a script, PARENT COMMAND...: becomes the command, which on Linux ends with the process of the id PARENT.

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
        if os.getppid() != int(sys.argv[1]):  # it had ended before that was asked
            sys.exit(1)
    os.execvp(sys.argv[2], sys.argv[2:])
