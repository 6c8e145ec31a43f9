"""Mixtures: how many rows of each bucket an epoch takes from each window."""

import numpy as np

from dataservice.buckets import buckets
from dataservice.choices import MIXTURES
from dataservice.config import DataConfig
from dataservice.errors import DataError
from dataservice.windows import Windows

__all__ = ["rows_taken"]


def rows_taken(before: np.ndarray, windows: Windows, config: DataConfig) -> np.ndarray:
    """Return how many rows of each bucket an epoch takes from the first `before` rows in store order; int64 as it.

    natural: all of them. Else floor(before * wanted / available) with the tokens wanted of a length and those that
    its rows have in the whole store (plain and packed together, in proportion), so that every window gives its share
    and the sum over windows is exact. A ratio above 1 means that rows are taken again. before: (buckets, edges).
    Any mixture but natural needs all windows known. Raises `DataError` when a length that it names has no rows.
    """
    if config.mixture == "natural":
        return before
    total = windows.rows_before(0, len(windows))[:, -1].tolist()
    available: dict[int, int] = {}
    for (length, _), rows in zip(buckets(config), total, strict=True):
        available[length] = available.get(length, 0) + rows * length
    mixture = _tokens_wanted(config, available)
    taken = np.zeros_like(before)
    for bucket, (length, _) in enumerate(buckets(config)):
        wanted = mixture.get(length, 0)
        if wanted and not available[length]:
            raise DataError(f"data.mixture[{length}] must be 0, got {wanted}; the store has no rows of this length")
        if wanted:
            # Python integers: tokens times rows passes 2^63 on large stores.
            taken[bucket] = before[bucket].astype(object) * wanted // available[length]
    return taken


def _tokens_wanted(config: DataConfig, available: dict[int, int]) -> dict[int, int]:
    """Return the tokens to take of each length; of a named mixture as many of each as the scarcest of them has."""
    if isinstance(config.mixture, dict):
        return config.mixture
    first, last = MIXTURES[config.mixture]
    named = [length for length in config.lengths if first <= length <= last]
    scarcest = min(named, key=lambda length: available[length])
    if not available[scarcest]:
        raise DataError(
            f"data.mixture must name lengths that the store has, got {config.mixture} and no row of {scarcest} "
            "tokens; lower data.max_length or set data.mixture=natural"
        )
    return dict.fromkeys(named, available[scarcest])
