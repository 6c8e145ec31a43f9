"""Spikes of the loss and of the gradient norm."""

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dataservice import Bucket

WATCHED = ("loss", "gradient_norm")
_NORMAL = 1.4826  # a normal distribution's standard deviation over its median absolute deviation
_LEAST_DEVIATION = 0.01  # of the median: else a loss that hardly moves would spike at every breath


class Spike(NamedTuple):
    """A value far above what is usual in its bucket."""

    name: str
    value: float
    median: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.name} {self.value:.4g} (usually {self.median:.4g} +- {self.deviation:.2g})"


class SpikeDetector:
    """Tells spikes from what the same bucket had before: losses of short and long sequences differ by nature.

    A value spikes when it lies more than `deviations` robust deviations above the median of the last `window` steps of
    its bucket. The robust deviation is 1.4826 times the median absolute deviation, at least 1% of the median. Nothing
    spikes before half of the window is there. A spike enters the window too: of a level that stays, only the first
    steps are spikes.
    """

    def __init__(self, window: int, deviations: float):
        self._window, self._deviations = window, deviations
        self._seen: defaultdict[tuple[Bucket, str], deque[float]] = defaultdict(lambda: deque(maxlen=window))

    def feed(self, bucket: Bucket, values: Mapping[str, float]) -> list[Spike]:
        """Take the finite values of a step and return those that spike."""
        if not self._deviations:
            return []
        return [
            spike for name in WATCHED if (spike := self._feed(self._seen[bucket, name], name, values[name])) is not None
        ]

    def _feed(self, seen: deque[float], name: str, value: float) -> Spike | None:
        before = np.array(seen)
        seen.append(value)
        if len(before) < max(2, self._window // 2):
            return None
        median = float(np.median(before))
        deviation = max(_NORMAL * float(np.median(np.abs(before - median))), _LEAST_DEVIATION * abs(median))
        return Spike(name, value, median, deviation) if value > median + self._deviations * deviation else None
