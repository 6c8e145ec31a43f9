"""How unequally a quantity is shared."""

from collections.abc import Sequence

import numpy as np

__all__ = ["gini"]


def gini(values: Sequence[float]) -> float | None:
    """Return the Gini index of positive values x_1 .. x_n, each of the same weight; None for fewer than two.

    It is half the mean absolute difference relative to the mean (C. Gini, *Variabilità e mutabilità*, 1912):

        G = sum_i sum_j |x_i - x_j| / (2 n^2 mean(x)),

    0 when all are equal, (n - 1) / n when one has everything. With x in rising order the double sum is
    2 sum_i (2 i - n - 1) x_i, i from 1 to n, which is what is computed.

    >>> gini([1.0, 3.0])
    0.25
    """
    if len(values) < 2:
        return None
    rising = np.sort(np.asarray(values, np.float64))
    size = len(rising)
    weights = 2 * np.arange(1, size + 1) - size - 1
    return float(weights @ rising / (size * rising.sum()))
