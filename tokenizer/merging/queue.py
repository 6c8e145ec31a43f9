"""The best pairs, best first, without sorting all of them."""

import numpy as np

from tokenizer.merging.pairs import Pairs

__all__ = ["Queue"]

_POOL_SIZE = 2048
_EVERYTHING = (0.0, -1)  # the threshold that lets in every pair of positive priority


class Queue:
    """A pool of candidates above a threshold that moves down when they are used up.

    Pairs are ordered by falling priority, then by rising key. Priorities only fall and keys only rise, so a pair
    outside the pool stays below the threshold, and one that falls below it leaves.
    """

    def __init__(self, pairs: Pairs, *, has_fixed_keys: bool) -> None:
        self._pairs = pairs
        self._has_fixed_keys = has_fixed_keys
        self._pool = np.zeros(0, np.int64)  # pair numbers, by rising key
        self._threshold = (np.inf, 0)  # the last (priority, key) that is let in

    def add(self, numbers: np.ndarray) -> None:
        """Let in those of some new pairs that are above the threshold."""
        numbers = numbers[self._is_above(numbers)]
        numbers = numbers[np.argsort(self._pairs.keys[numbers])]
        places = np.searchsorted(self._pairs.keys[self._pool], self._pairs.keys[numbers])
        self._pool = np.insert(self._pool, places, numbers)

    def top(self, limit: int) -> np.ndarray:
        """Return up to `limit` of the best pairs of positive priority, best first; none when there are none."""
        self._pool = self._pool[self._is_above(self._pool)]
        if not self._has_fixed_keys:
            self._pool = self._pool[np.argsort(self._pairs.keys[self._pool])]
        if len(self._pool) < limit and self._threshold > _EVERYTHING:
            self._fill(np.flatnonzero(self._pairs.priorities > 0))
        elif len(self._pool) > 2 * _POOL_SIZE:
            self._fill(self._pool)
        priorities = self._pairs.priorities[self._pool]
        if len(self._pool) <= limit:
            chosen = np.arange(len(self._pool))
        else:
            last = np.partition(priorities, -limit)[-limit]
            chosen = np.flatnonzero(priorities > last)
            equal = np.flatnonzero(priorities == last)[: limit - len(chosen)]
            chosen = np.sort(np.concatenate((chosen, equal)))
        return self._pool[chosen[np.argsort(-priorities[chosen], kind="stable")]]

    def _is_above(self, numbers: np.ndarray) -> np.ndarray:
        priorities, keys = self._pairs.priorities[numbers], self._pairs.keys[numbers]
        lowest, largest_key = self._threshold
        return (priorities > lowest) | ((priorities == lowest) & (keys <= largest_key))

    def _fill(self, numbers: np.ndarray) -> None:
        """Make the best _POOL_SIZE of `numbers`, the best pairs of positive priority there are, the pool."""
        self._threshold = _EVERYTHING
        if len(numbers) > _POOL_SIZE:
            priorities = self._pairs.priorities[numbers]
            lowest = np.partition(priorities, -_POOL_SIZE)[-_POOL_SIZE]
            equal = np.sort(self._pairs.keys[numbers[priorities == lowest]])
            num_above = int((priorities > lowest).sum())
            self._threshold = (float(lowest), int(equal[_POOL_SIZE - num_above - 1]))
            numbers = numbers[self._is_above(numbers)]
        self._pool = numbers[np.argsort(self._pairs.keys[numbers])]
