"""Run by tests: a Python module with a limit on the size of files. Arguments: bytes, the module, its arguments."""

import os
import resource
import sys

LIMIT = int(sys.argv[1])

resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[2:]])
