"""The kinds of sequences: the rows that each makes of a shard, and what the table of shards knows of them."""

import numpy as np

from dataservice.best_fit import best_fit
from dataservice.buckets import Bucket, buckets
from dataservice.concatenation import concatenate, count_rows
from dataservice.config import DataConfig
from dataservice.decomposition import decompose
from dataservice.hashing import derive_key
from dataservice.pieces import ShardRows

__all__ = ["count_by_table", "has_pieces", "joins_documents", "make_rows"]


def has_pieces(bucket: Bucket, config: DataConfig) -> bool:
    """Whether the rows of a bucket are `PiecedRows`."""
    return bucket.packed or config.sequences != "decomposed"


def joins_documents(config: DataConfig) -> bool:
    """Whether attention goes over the whole row, also where that holds several documents."""
    return config.sequences in ("concatenated", "grow-length")


def make_rows(documents: np.ndarray, config: DataConfig, shard_digest: str) -> ShardRows:
    """Return the rows of a shard in each of the `buckets(config)`.

    documents: int64, the position of each document's first input, and the end of the last document. Concatenated
    documents come in an order of their own for every seed and shard (known by its digest in hex).
    """
    config_buckets = buckets(config)
    if config.sequences == "decomposed":
        return decompose(documents, config.min_length, config.max_length, packs=config_buckets[-1].packed)
    if config.sequences == "packed":
        return (best_fit(documents, config.max_length),)
    key = derive_key(config.seed, "documents", int(shard_digest, 16))
    lengths = config.lengths[::-1]
    rows = concatenate(documents, lengths, key, keeps_rest=config.tails == "pack")
    if config.sequences == "concatenated-masked":
        return (rows,)
    counts, _ = count_rows(documents[-1:] - documents[:1], lengths)
    edges = [0, *np.cumsum(counts).tolist(), len(rows.offsets) - 1]
    return tuple(rows.slice(edges[number], edges[number + 1]) for number in range(len(config_buckets)))


def count_by_table(digits: np.ndarray, multiples: np.ndarray, config: DataConfig) -> np.ndarray:
    """Return the rows of the first buckets in each shard, as far as the table of shards tells; int64[buckets, S].

    digits[s, k] documents of shard s have binary digit k in their length n, and multiples[s, k] is the sum of n >> k
    over them (int64[S, 48]). Of packed documents and tails only packing tells.
    """
    if config.sequences == "packed":
        return np.zeros((0, len(digits)), np.int64)
    if config.sequences == "decomposed":
        first, last = config.lengths[0].bit_length() - 1, config.lengths[-1].bit_length() - 1
        return np.concatenate([multiples[:, last][None], digits[:, first:last].T[::-1]])
    counts, rest = count_rows(multiples[:, 0], config.lengths[::-1])
    rows_of_rest = (rest > 0) & (config.tails == "pack")
    if config.sequences == "concatenated-masked":
        return counts + rows_of_rest
    return np.vstack([counts, rows_of_rest])[: len(buckets(config))]
