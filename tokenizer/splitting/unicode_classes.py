"""Character classes of Unicode 16, frozen in `unicode16.npz` (made by `unicode_freeze.py`)."""

from functools import cache
from pathlib import Path

import numpy as np

__all__ = ["CLASSES", "NUM_CODE_POINTS", "class_table"]

NUM_CODE_POINTS = 0x110000
TABLE_FILE = Path(__file__).with_name("unicode16.npz")

# The letters come first, so that `class <= other_letter` is \p{L}.
CLASSES = {
    "uppercase": 0,
    "lowercase": 1,
    "titlecase": 2,
    "modifier": 3,
    "other_letter": 4,
    "mark": 5,
    "number": 6,
    "space": 7,
    "other": 8,
}


@cache
def class_table() -> np.ndarray:
    """Return uint8[NUM_CODE_POINTS], the value of CLASSES of each code point (read-only)."""
    with np.load(TABLE_FILE) as runs:
        starts, classes = runs["starts"], runs["classes"]
    table = np.repeat(classes, np.diff(starts, append=NUM_CODE_POINTS))
    table.flags.writeable = False
    return table
