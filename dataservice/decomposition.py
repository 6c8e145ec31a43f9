"""Dataset decomposition (arXiv 2405.13226): documents cut into powers of two, and the short ends packed."""

import numpy as np

from dataservice.packing import pack_pieces
from dataservice.pieces import ShardRows

__all__ = ["chunk_starts", "decompose", "tails"]


def chunk_starts(documents: np.ndarray, power: int, last_power: int) -> np.ndarray:
    """Return the positions of all chunks of 2^power inputs, in the order of their documents; int64.

    `documents` holds the position of each document's first input and the end of the last document, so a document
    has n = difference inputs. From its head come n >> last_power chunks of the greatest length, then one of 2^k for
    every binary digit k of n, largest first: n = 13 and last_power 2 give 4 + 4 + 4 + 1 at offsets 0, 4, 8 and 12.
    A chunk that starts at s reads tokens[s : s + 2^power + 1]: its last target is the next chunk's first input.
    """
    positions, inputs = documents[:-1], np.diff(documents)
    if power < last_power:
        digit = (inputs >> power) & 1 == 1
        return positions[digit] + (inputs[digit] >> (power + 1) << (power + 1))
    counts = inputs >> last_power
    first = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(first, counts)
    return np.repeat(positions, counts) + (within << last_power)


def tails(documents: np.ndarray, min_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (start, inputs) of what is left of each document after its chunks, where anything is; two int64[T]."""
    lengths = np.diff(documents) & (min_length - 1)
    starts = documents[1:] - lengths
    return starts[lengths > 0], lengths[lengths > 0]


def decompose(documents: np.ndarray, min_length: int, max_length: int, *, packs: bool) -> ShardRows:
    """Return the rows of a shard whose documents lie at the given positions; every input belongs to one row.

    They come by length, longest first. With `packs` the tails under min_length are packed into rows of min_length,
    which come last, else they belong to none.
    """
    first, last = min_length.bit_length() - 1, max_length.bit_length() - 1
    starts = tuple(chunk_starts(documents, power, last) for power in range(last, first - 1, -1))
    return (*starts, pack_pieces(*tails(documents, min_length), min_length)) if packs else starts
