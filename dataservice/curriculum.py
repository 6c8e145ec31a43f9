"""Curricula: the odds of drawing each length, and the order of a cycle's batches that they give."""

import numpy as np

from dataservice.buckets import buckets
from dataservice.config import DataConfig
from dataservice.hashing import derive_key, exponentials

__all__ = ["arrange", "bucket_odds", "bucket_stages", "length_odds"]

_BASES = {"p2": 2.0, "p100": 100.0}


def length_odds(config: DataConfig, curriculum: str | tuple[float, ...] | None = None) -> tuple[float, ...]:
    """Return the odds of each length in `curriculum` (None: in that of most cycles), shortest first.

    Six lengths: grow-linear 6 5 4 3 2 1, grow-p2 32 16 8 4 2 1, grow-p100 powers of 100; shrink-* the other way
    round; uniform all 1. Divided by `step_seconds`: where steps of two lengths take 1 and 3 seconds, uniform odds
    become 1 and 1/3, and as long as both have batches each gets half of the time. Only decomposed sequences are
    steered: others have odds of 1.
    """
    count = len(config.lengths)
    if config.sequences != "decomposed":
        return (1.0,) * count
    odds = _named_odds(config.curriculum if curriculum is None else curriculum, count)
    if config.step_seconds is None:
        return odds
    return tuple(each / config.step_seconds[length] for each, length in zip(odds, config.lengths, strict=True))


def _named_odds(curriculum: str | tuple[float, ...], count: int) -> tuple[float, ...]:
    if not isinstance(curriculum, str):
        return curriculum
    if curriculum == "uniform":
        return (1.0,) * count
    direction, shape = curriculum.split("-")
    odds = tuple(number + 1.0 if shape == "linear" else _BASES[shape] ** number for number in range(count))
    return odds[::-1] if direction == "grow" else odds


def arrange(
    batches: np.ndarray, odds: np.ndarray, key: int, stages: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of a cycle's batches: (bucket, number within the bucket) of each step; int16, int64[steps].

    Algorithm 1 draws, until all is used, a bucket by its odds among those that still have batches. The same law in
    continuous time: the batches of a bucket arrive as a Poisson process whose rate is its odds, independently of the
    other buckets, and steps follow the order of arrival. With `stages`, all buckets of a lower stage come before those
    of a higher one. batches, odds, stages: (buckets,).
    """
    times = [
        np.cumsum(exponentials(count, derive_key(key, "arrivals", bucket))) / odds[bucket]
        for bucket, count in enumerate(batches.tolist())
    ]
    first = np.cumsum(batches) - batches
    # A store of 10^12 tokens has millions of steps a cycle: no array of theirs outlives its use.
    buckets_of = np.repeat(np.arange(len(batches), dtype=np.int16), batches)
    arrival = np.concatenate(times)
    del times
    flat = np.argsort(arrival, kind="stable") if stages is None else np.lexsort((arrival, stages[buckets_of]))
    del arrival
    bucket = buckets_of[flat]
    flat -= first[bucket]
    return bucket, flat


def bucket_odds(config: DataConfig, curriculum: str | tuple[float, ...] | None = None) -> np.ndarray:
    """Return the odds of each bucket, longest first; the packed bucket has those of the shortest length; float64."""
    odds = dict(zip(config.lengths, length_odds(config, curriculum), strict=True))
    return np.array([odds[bucket.length] for bucket in buckets(config)])


def bucket_stages(config: DataConfig) -> np.ndarray | None:
    """Return the stage of a cycle in which each bucket comes, or None where there are none; int64[buckets].

    grow-length alone has them, one for each length: every row of a length comes before any longer one.
    """
    if config.sequences != "grow-length":
        return None
    return np.array([config.lengths.index(bucket.length) for bucket in buckets(config)])
