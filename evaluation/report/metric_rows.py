"""Rows of metrics.jsonl: the bucket of a step, and points of curves."""

import math

import numpy as np

from training.metrics import Row

__all__ = ["bucket_key", "bucket_of", "is_number", "points"]


def points(rows: list[Row], x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
    """(x, y), float64[points] each, of the rows that have finite numbers of both."""
    found = [(row[x], row[y]) for row in rows if is_number(row.get(x)) and is_number(row.get(y))]
    pairs = np.array(found, np.float64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def bucket_of(row: Row) -> str:
    """The bucket of a step's row, as `training.metrics.bucket_name` calls it."""
    return f"{row['length']}{'p' if row.get('packed') else ''}"


def bucket_key(name: str) -> tuple[int, bool]:
    """What sorts names of buckets: by length, packed ones first.

    >>> sorted(["128", "64", "64p"], key=bucket_key)
    ['64p', '64', '128']
    """
    return int(name.rstrip("p")), not name.endswith("p")


def is_number(value: object) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)
