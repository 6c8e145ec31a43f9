"""The machine that numbers were measured on, in words."""

import os
import platform
from pathlib import Path

__all__ = ["machine"]


def machine() -> str:
    """Cores and processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores, " + (
        names[0] if names else platform.machine()
    )
