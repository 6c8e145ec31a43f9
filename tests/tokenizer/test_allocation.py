"""Freed arrays leave their pages to the next ones: counted in page faults, in a process of its own."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = """
import resource, sys
import numpy as np
from tokenizer.allocation import keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    arrays = [np.ones(1 << 20, np.uint8) for _ in range(20)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc")
def test_kept_memory_is_mapped_once():
    def faults(how: str) -> int:
        command = [sys.executable, "-c", FAULTS, how]
        root = Path(__file__).parents[2]
        return int(subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout)

    # Of 20 arrays of a megabyte 2 sets are alive at once: their pages, a few more, and never those of 50 sets.
    assert faults("kept") < 4 * 20 * 256 < faults("given back")
