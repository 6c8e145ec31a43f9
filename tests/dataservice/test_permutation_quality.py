"""The keyed permutation against true random ones, by statistics whose mean and variance have closed forms.

For an order R of 1 .. n drawn uniformly, and another one S:

- displacement, sum |R_i - i|: mean (n^2 - 1) / 3, variance (n + 1) (2 n^2 + 7) / 45 (Diaconis and Graham 1977);
- neighbours, sum (R_i - R_{i+1})^2 over n (n^2 - 1) / 12: mean 2, variance 4 (n - 2) (5 n^2 - 2 n - 9) /
  (5 n (n + 1) (n - 1)^2) (Bartels 1982);
- pairs kept, i with |R_i - R_{i+1}| = 1: mean m = 2 (n - 1) / n, variance 4 (n - 2)^2 / (n (n - 1)) + m - m^2, from
  the chances 2 / (n (n - 1)) and 4 / (n (n - 1)) that two pairs are kept which share an item or do not;
- correlation of R and S: mean 0, variance 1 / (n - 1) (Spearman 1904);
- meetings, i with R_i = S_i: mean 1, variance 1 (de Montmort 1713).
"""

import math
from functools import lru_cache
from itertools import pairwise, permutations
from statistics import fmean, pvariance

import numpy as np
import pytest

from dataservice.hashing import derive_key
from dataservice.permutation import permute

# On both sides of where the rounds change, a prime, and squares.
SIZES = (64, 1000, 1024, 1025, 4096, 20_011, 65_536)
NUM_EPOCHS = 100
# A result so many deviations away comes once in 150,000 seeds.
LIMIT = 4.5


def displacement(order: np.ndarray, other: np.ndarray) -> float:
    n = len(order)
    total = np.abs(order - np.arange(n)).sum()
    return (total - (n**2 - 1) / 3) / math.sqrt((n + 1) * (2 * n**2 + 7) / 45)


def neighbours(order: np.ndarray, other: np.ndarray) -> float:
    n = len(order)
    ratio = (np.diff(order) ** 2).sum() / (n * (n**2 - 1) / 12)
    return (ratio - 2) / math.sqrt(4 * (n - 2) * (5 * n**2 - 2 * n - 9) / (5 * n * (n + 1) * (n - 1) ** 2))


def pairs_kept(order: np.ndarray, other: np.ndarray) -> float:
    n = len(order)
    mean = 2 * (n - 1) / n
    variance = 4 * (n - 2) ** 2 / (n * (n - 1)) + mean - mean**2
    return ((np.abs(np.diff(order)) == 1).sum() - mean) / math.sqrt(variance)


def correlation(order: np.ndarray, other: np.ndarray) -> float:
    return np.corrcoef(order, other)[0, 1] * math.sqrt(len(order) - 1)


def meetings(order: np.ndarray, other: np.ndarray) -> float:
    return float((order == other).sum() - 1)


STATISTICS = (displacement, neighbours, pairs_kept, correlation, meetings)


@lru_cache(1)
def orders_of_epochs(size: int) -> list[np.ndarray]:
    return [permute(np.arange(size), size, derive_key(1, "quality", epoch)) for epoch in range(NUM_EPOCHS + 1)]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_closed_forms_are_those_of_all_orders_of_six(statistic):
    orders = [np.array(order) for order in permutations(range(6))]
    scores = [statistic(order, orders[0]) for order in orders]
    assert fmean(scores) == pytest.approx(0, abs=1e-12)
    assert pvariance(scores) == pytest.approx(1)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("size", SIZES)
def test_orders_of_epochs_score_as_random_ones(size, statistic):
    scores = np.array([statistic(order, other) for order, other in pairwise(orders_of_epochs(size))])
    assert abs(scores.mean()) < LIMIT / math.sqrt(NUM_EPOCHS)
    # The fourth moment is at most 4, that of the Poisson counts of mean 1; 3 for those that tend to be normal.
    assert abs((scores**2).mean() - 1) < LIMIT * math.sqrt((4 - 1) / NUM_EPOCHS)


@pytest.mark.parametrize("apart", [1, 7, NUM_EPOCHS])
@pytest.mark.parametrize("size", [1024, 4096, 65_536])
def test_rows_of_a_batch_part_in_another_epoch(size, apart):
    # table: (batches, batches) how many rows of a batch of one epoch are in a batch of another
    batches = 16
    orders = orders_of_epochs(size)
    rows, expected = size // batches, size / batches**2
    statistics = []
    for first, second in zip(orders, orders[apart:], strict=False):
        batch_of, batch_then = np.empty(size, int), np.empty(size, int)
        batch_of[first], batch_then[second] = np.arange(size) // rows, np.arange(size) // rows
        table = np.bincount(batch_of * batches + batch_then, minlength=batches**2)
        statistics.append(((table - expected) ** 2 / expected).sum())
    # The mean of chi-squared with fixed margins is exact; its variance tends to 2 (batches - 1)^2.
    freedom = (batches - 1) ** 2
    deviation = math.sqrt(2 * freedom / len(statistics))
    assert abs(fmean(statistics) - freedom * size / (size - 1)) < LIMIT * deviation


@pytest.mark.parametrize("size", [1024, 4096, 65_536])
def test_a_batch_takes_from_everywhere(size):
    batches, rows = 16, size // 16
    statistics = []
    for order in orders_of_epochs(size):
        table = np.bincount((np.arange(size) // rows) * batches + order // rows, minlength=batches**2)
        statistics.append(((table - rows / batches) ** 2 / (rows / batches)).sum())
    freedom = (batches - 1) ** 2
    deviation = math.sqrt(2 * freedom / len(statistics))
    assert abs(fmean(statistics) - freedom * size / (size - 1)) < LIMIT * deviation
