"""What an epoch holds: rows and tokens of each bucket, what a mixture leaves out, and mean lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dataservice.buckets import Bucket, buckets, rows_per_step
from dataservice.choices import SEQUENCES
from dataservice.config import DataConfig
from dataservice.identity import open_schedule
from dataservice.indexes import RowIndexes
from dataservice.pieces import PiecedRows
from dataservice.sequences import joins_documents
from dataservice.store import Store

__all__ = [
    "BucketStatistics",
    "Statistics",
    "format_kinds",
    "format_statistics",
    "mean_lengths",
    "measure",
    "measure_kinds",
]


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

    @property
    def padding(self) -> float:
        """Share of the places in the bucket's rows that hold no target."""
        return 1 - self.tokens / (self.rows * self.bucket.length) if self.rows else 0.0


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Contents of an epoch; every target of the store is in a bucket or among `dropped_tokens`.

    Sequences are what attention goes over: whole rows, or the pieces of documents in rows where it stays within them.
    """

    buckets: tuple[BucketStatistics, ...]
    documents: int
    dropped_tokens: int
    mean_sequence: float
    mean_context: float

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return sum(bucket.steps for bucket in self.buckets)

    @property
    def padding(self) -> float:
        """Share of the places in all rows that hold no target."""
        places = sum(bucket.rows * bucket.bucket.length for bucket in self.buckets)
        return 1 - sum(bucket.tokens for bucket in self.buckets) / places if places else 0.0


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
    """Return the statistics of an epoch of `store`; waits for the whole store, and packs what must be packed."""
    indexes = RowIndexes(store, config)
    schedule = open_schedule(store, config, indexes)
    available, taken = schedule.rows_per_epoch()
    found, all_lengths, all_counts = [], [], []
    for number, (bucket, rows, rows_taken) in enumerate(
        zip(buckets(config), available.tolist(), taken.tolist(), strict=True)
    ):
        lengths, counts = np.array([bucket.length]), np.array([rows])
        if bucket.packed:
            lengths, counts = _count_sequences(store, config, indexes, number)
        steps = -(-rows_taken // rows_per_step(bucket, config))
        tokens = int(lengths @ counts)
        found.append(BucketStatistics(bucket=bucket, rows=rows, tokens=tokens, rows_taken=rows_taken, steps=steps))
        all_lengths.append(lengths)
        all_counts.append(counts * (rows_taken / max(rows, 1)))
    sequence, context = mean_lengths(np.concatenate(all_lengths), np.concatenate(all_counts))
    return Statistics(
        buckets=tuple(found),
        documents=int(store.shards.documents.sum()),
        dropped_tokens=int(store.shards.multiples[:, 0].sum()) - sum(bucket.tokens for bucket in found),
        mean_sequence=sequence,
        mean_context=context,
    )


def measure_kinds(store: Store, config: DataConfig) -> dict[str, Statistics]:
    """Return the statistics of every kind of sequences at these lengths, all rows of the store taken once."""
    return {kind: measure(store, config.for_sequences(kind)) for kind in SEQUENCES}


def _count_sequences(
    store: Store, config: DataConfig, indexes: RowIndexes, bucket: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (lengths, how many sequences have each) of a packed bucket; two int64 arrays."""
    counts = np.zeros(buckets(config)[bucket].length + 1, np.int64)
    for shard in range(store.num_planned_shards):
        rows = indexes.rows(shard)[bucket]
        assert isinstance(rows, PiecedRows)
        lengths = rows.row_lengths() if joins_documents(config) else rows.lengths
        counts += np.bincount(lengths, minlength=len(counts))
    return np.arange(len(counts)), counts


def format_statistics(statistics: Statistics) -> str:
    """Return a table of the statistics, a line a bucket, and what they sum to."""
    header = ("length", "rows", "tokens", "share", "padding", "rows taken", "left out", "repeated", "steps")
    total = sum(bucket.tokens for bucket in statistics.buckets)
    lines = [_format_line(header)]
    for found in statistics.buckets:
        share = _percent(found.tokens / max(total, 1))
        length = f"{found.bucket.length}{' packed' if found.bucket.packed else ''}"
        taken = (found.rows_taken, found.rows_left_out, found.rows_repeated, found.steps)
        lines.append(_format_line((length, found.rows, found.tokens, share, _percent(found.padding), *taken)))
    rows, taken = (sum(getattr(found, name) for found in statistics.buckets) for name in ("rows", "rows_taken"))
    left, again = (sum(getattr(b, name) for b in statistics.buckets) for name in ("rows_left_out", "rows_repeated"))
    totals = ("100.0%", _percent(statistics.padding), taken, left, again, statistics.steps)
    lines.append(_format_line(("total", rows, total, *totals)))
    lines.append(
        f"{statistics.documents:,} documents; {statistics.dropped_tokens:,} tokens dropped; mean sequence "
        f"{statistics.mean_sequence:.1f} tokens, mean context {statistics.mean_context:.1f} tokens"
    )
    return "\n".join(lines)


def format_kinds(kinds: dict[str, Statistics]) -> str:
    """Return a table that compares kinds of sequences, a line a kind."""
    header = ("sequences", "rows", "tokens", "dropped", "padding", "steps", "mean sequence", "mean context")
    lines = [_format_line(header)]
    for kind, found in kinds.items():
        rows, tokens = (sum(getattr(bucket, name) for bucket in found.buckets) for name in ("rows", "tokens"))
        means = (f"{found.mean_sequence:.1f}", f"{found.mean_context:.1f}")
        lines.append(
            _format_line((kind, rows, tokens, found.dropped_tokens, _percent(found.padding), found.steps, *means))
        )
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _format_line(cells: Sequence[int | str]) -> str:
    first, *others = (f"{cell:,}" if isinstance(cell, int) else cell for cell in cells)
    return f"{first:<20}" + "".join(f"{cell:>15}" for cell in others)
