"""Buckets: the row lengths that batches are made of."""

from typing import NamedTuple

from dataservice.config import DataConfig

__all__ = ["Bucket", "buckets", "rows_per_step"]


class Bucket(NamedTuple):
    """Rows of one shape; `packed` rows hold pieces of documents, or padding, and carry segments."""

    length: int
    packed: bool


def buckets(config: DataConfig) -> tuple[Bucket, ...]:
    """Return the buckets of a run, longest first, known before any data is.

    The packed bucket comes last, when there can be tails to pack: min_length=2, max_length=8 and tails="pack" give
    lengths 8, 4, 2 and packed rows of 2. Where attention stays within documents, all rows are packed ones.
    """
    if config.sequences in ("concatenated-masked", "packed"):
        return (Bucket(config.max_length, packed=True),)
    plain = tuple(Bucket(length, packed=False) for length in reversed(config.lengths))
    packs = config.tails == "pack" and config.lengths[0] > 1
    return (*plain, Bucket(config.lengths[0], packed=True)) if packs else plain


def rows_per_step(bucket: Bucket, config: DataConfig) -> int:
    """Return the rows of a batch of this bucket; every batch holds `tokens_per_step` tokens."""
    return config.tokens_per_step // bucket.length
