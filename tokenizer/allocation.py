"""Memory that arrays have left, kept for the next ones."""

import ctypes
import sys
from functools import cache

__all__ = [
    "M_ARENA_MAX",
    "M_MMAP_MAX",
    "M_MMAP_THRESHOLD",
    "M_TOP_PAD",
    "M_TRIM_THRESHOLD",
    "keep_freed_memory",
    "set_allocator",
]

# glibc's mallopt parameters (malloc.h).
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -3, -4, -8
MEGABYTE = 1 << 20


@cache
def keep_freed_memory() -> None:
    """Tell glibc, once, to keep the memory of freed arrays of up to 32 MB instead of giving it back to the kernel.

    Work on blocks frees and asks for arrays of a megabyte all the time; the page faults of mapping them anew cost a
    fifth of the time of counting, and a third of that of encoding. At most a quarter of a gigabyte is kept.
    """
    set_allocator({M_MMAP_THRESHOLD: 32 * MEGABYTE, M_TRIM_THRESHOLD: 256 * MEGABYTE, M_TOP_PAD: 32 * MEGABYTE})


def set_allocator(settings: dict[int, int]) -> None:
    """Give glibc's mallopt parameters their values, for the whole process; does nothing without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is None:
        return
    for parameter, value in settings.items():
        mallopt(parameter, value)
