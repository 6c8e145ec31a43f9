"""Windows of shards in store order, and how many rows of each bucket lie before every shard."""

from collections.abc import Callable

import numpy as np

from dataservice.buckets import buckets
from dataservice.config import DataConfig

__all__ = ["FILLING", "Windows"]

FILLING = -1
"""Number that stands for no row, where the last rows do not fill a batch."""


class Windows:
    """The windows of a store of `num_shards` planned shards, which become known one by one, in order.

    `count_rows(first, stop)` returns the rows of each bucket in the shards from `first` up to `stop` at least,
    int64[buckets, shards]; it may wait for them, and may return more shards when those cost nothing.
    """

    def __init__(self, num_shards: int, config: DataConfig, count_rows: Callable[[int, int], np.ndarray]) -> None:
        self._size = config.window_shards or max(num_shards, 1)
        self._num_shards = num_shards
        self._count_rows = count_rows
        self._num_counted = 0
        # before: (buckets, S + 1) rows of each bucket in the shards before each
        self._before = np.zeros((len(buckets(config)), num_shards + 1), dtype=np.int64)

    def __len__(self) -> int:
        return -(-self._num_shards // self._size)

    @property
    def num_known(self) -> int:
        """Windows whose rows are counted."""
        return len(self) if self._num_counted == self._num_shards else self._num_counted // self._size

    def bounds(self, window: int) -> tuple[int, int]:
        """Return (first shard, end) of a window."""
        return window * self._size, min((window + 1) * self._size, self._num_shards)

    def learn(self, window: int) -> None:
        """Count the rows of all windows up to this one, waiting for its shards when they are being made."""
        _, end = self.bounds(window)
        while self._num_counted < end:
            counts = self._count_rows(self._num_counted, end)
            first, self._num_counted = self._num_counted, self._num_counted + counts.shape[1]
            ends = self._before[:, first, None] + np.cumsum(counts, axis=1)
            self._before[:, first + 1 : self._num_counted + 1] = ends

    def rows_before(self, first: int, stop: int) -> np.ndarray:
        """Return the rows of each bucket before the windows first to stop - 1 and after the last; all known.

        int64[buckets, stop - first + 1].
        """
        edges = np.minimum(np.arange(first, stop + 1) * self._size, self._num_shards)
        return self._before[:, edges]

    def rows_in(self, num_shards: int) -> np.ndarray:
        """Return the rows of each bucket in each of the first shards, which lie in known windows; int64[buckets, S]."""
        return np.diff(self._before[:, : num_shards + 1])

    def find_shards(self, bucket: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (shard, number of the row within it) of rows numbered in store order; two int64 arrays.

        `bucket` is an index into the buckets; the rows lie in known windows.
        """
        before = self._before[bucket, : self._num_counted + 1]
        shards = np.searchsorted(before, rows, side="right") - 1
        return shards, rows - before[shards]
