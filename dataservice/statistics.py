"""What an epoch holds: rows and tokens of each bucket, what a mixture leaves out, and mean lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dataservice.buckets import Bucket, buckets, rows_per_step
from dataservice.config import DataConfig
from dataservice.identity import open_schedule
from dataservice.indexes import RowIndexes
from dataservice.store import Store

__all__ = ["BucketStatistics", "Statistics", "format_statistics", "mean_lengths", "measure"]


@dataclass(frozen=True, kw_only=True)
class BucketStatistics:
    """Rows of a bucket in the store, and those an epoch takes; `tokens` are targets, without padding."""

    bucket: Bucket
    rows: int
    tokens: int
    rows_taken: int
    steps: int

    @property
    def rows_left_out(self) -> int:
        """Rows that an epoch does not take."""
        return max(self.rows - self.rows_taken, 0)

    @property
    def rows_repeated(self) -> int:
        """Rows taken beyond the first time, each repeat counted."""
        return max(self.rows_taken - self.rows, 0)


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Contents of an epoch; every target of the store is in a bucket or among `dropped_tokens`."""

    buckets: tuple[BucketStatistics, ...]
    documents: int
    dropped_tokens: int
    mean_sequence: float
    mean_context: float

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return sum(bucket.steps for bucket in self.buckets)


def mean_lengths(lengths: Sequence[int] | np.ndarray, counts: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the mean length of sequences, and the mean number of tokens before a token, sum l(l-1) / (2 sum l).

    counts: sequences of each length. One sequence of 2 and one of 4 give 3 and (1 + 6) / 6; none give 0 and 0.
    """
    sizes, numbers = np.asarray(lengths, np.float64), np.asarray(counts, np.float64)
    tokens = float(numbers @ sizes)
    if not tokens:
        return 0.0, 0.0
    return tokens / float(numbers.sum()), float(numbers @ (sizes * (sizes - 1))) / (2 * tokens)


def measure(store: Store, config: DataConfig) -> Statistics:
    """Return the statistics of an epoch of `store`; waits for the whole store, and packs tails when it must."""
    indexes = RowIndexes(store, config)
    schedule = open_schedule(store, config, indexes)
    available, taken = schedule.rows_per_epoch()
    # tail_counts: (min_length,) packed tails of each length
    tail_counts = np.zeros(config.min_length, dtype=np.int64)
    for shard in range(store.num_planned_shards if config.tails == "pack" else 0):
        packed = indexes.rows(shard).packed
        if packed is not None:
            tail_counts += np.bincount(packed.lengths, minlength=config.min_length)
    lengths, counts = [np.arange(config.min_length)], [np.zeros(config.min_length)]
    found = []
    for bucket, rows, rows_taken in zip(buckets(config), available.tolist(), taken.tolist(), strict=True):
        tokens = int(tail_counts @ np.arange(config.min_length)) if bucket.packed else rows * bucket.length
        steps = -(-rows_taken // rows_per_step(bucket, config))
        found.append(BucketStatistics(bucket=bucket, rows=rows, tokens=tokens, rows_taken=rows_taken, steps=steps))
        lengths.append(np.arange(config.min_length) if bucket.packed else np.array([bucket.length]))
        counts.append(tail_counts * (rows_taken / max(rows, 1)) if bucket.packed else np.array([rows_taken]))
    sequence, context = mean_lengths(np.concatenate(lengths), np.concatenate(counts))
    return Statistics(
        buckets=tuple(found),
        documents=int(store.shards.documents.sum()),
        dropped_tokens=int(store.shards.multiples[:, 0].sum()) - sum(bucket.tokens for bucket in found),
        mean_sequence=sequence,
        mean_context=context,
    )


def format_statistics(statistics: Statistics) -> str:
    """Return a table of the statistics, a line a bucket, and what they sum to."""
    header = ("length", "rows", "tokens", "share", "rows taken", "left out", "repeated", "steps")
    total = sum(bucket.tokens for bucket in statistics.buckets)
    lines = [_format_line(header)]
    for found in statistics.buckets:
        share = f"{100 * found.tokens / max(total, 1):.1f}%"
        length = f"{found.bucket.length}{' packed' if found.bucket.packed else ''}"
        numbers = (found.rows, found.tokens, share, found.rows_taken, found.rows_left_out, found.rows_repeated)
        lines.append(_format_line((length, *numbers, found.steps)))
    rows, taken = (sum(getattr(found, name) for found in statistics.buckets) for name in ("rows", "rows_taken"))
    left, again = (sum(getattr(b, name) for b in statistics.buckets) for name in ("rows_left_out", "rows_repeated"))
    lines.append(_format_line(("total", rows, total, "100.0%", taken, left, again, statistics.steps)))
    lines.append(
        f"{statistics.documents:,} documents; {statistics.dropped_tokens:,} tokens dropped; mean sequence "
        f"{statistics.mean_sequence:.1f} tokens, mean context {statistics.mean_context:.1f} tokens"
    )
    return "\n".join(lines)


def _format_line(cells: Sequence[int | str]) -> str:
    first, *others = (f"{cell:,}" if isinstance(cell, int) else cell for cell in cells)
    return f"{first:<12}" + "".join(f"{cell:>15}" for cell in others)
