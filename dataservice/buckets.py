"""Buckets: the row lengths that batches are made of."""

from typing import NamedTuple

from dataservice.config import DataConfig

__all__ = ["Bucket", "buckets", "rows_per_step"]


class Bucket(NamedTuple):
    """Rows of one shape; `packed` rows hold several tails of documents and carry segments."""

    length: int
    packed: bool


def buckets(config: DataConfig) -> tuple[Bucket, ...]:
    """Return the buckets of a run, longest first, known before any data is.

    The packed bucket comes last, when there can be tails to pack: min_length=2, max_length=8 and tails="pack" give
    lengths 8, 4, 2 and packed rows of 2.
    """
    plain = tuple(Bucket(length, packed=False) for length in reversed(config.lengths))
    packs = config.tails == "pack" and config.min_length > 1
    return (*plain, Bucket(config.min_length, packed=True)) if packs else plain


def rows_per_step(bucket: Bucket, config: DataConfig) -> int:
    """Return the rows of a batch of this bucket; every batch holds `tokens_per_step` tokens."""
    return config.tokens_per_step // bucket.length
