"""Tokens of many stretches of an array at once: rows of one width, or pieces of any lengths joined.

Places are where stretches begin; that each is within the array is for the caller to know, as `Span.locate` does.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

__all__ = ["gather_pairs", "gather_pieces", "gather_rows", "group_by_shard", "join_ranges"]

# Below this mean length one gather of single tokens is faster than a copy a piece.
_SHORT_PIECE = 256
# Above this width a copy a row is as fast as one gather of rows.
_LONG_ROW = 4096


def gather_rows(tokens: np.ndarray, places: np.ndarray, width: int) -> np.ndarray:
    """Return row i = tokens[places[i] : places[i] + width] for all i; (n, width)."""
    if width > _LONG_ROW or not len(places):
        return _copy_each(tokens, places, np.full(len(places), width)).reshape(-1, width)
    # stretches: (len(tokens) - width + 1,) all stretches of `width` tokens, each one item, which NumPy copies 2 to 3
    # times faster than a row of items
    item = np.dtype((np.void, width * tokens.itemsize))
    stretches = np.ndarray((len(tokens) - width + 1,), item, tokens, 0, tokens.strides)
    return stretches[places].view(tokens.dtype).reshape(-1, width)


def gather_pieces(tokens: np.ndarray, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return tokens[places[i] : places[i] + lengths[i]] of all i, joined; (sum of lengths,)."""
    if lengths.sum() < _SHORT_PIECE * len(lengths):
        return tokens[join_ranges(places, lengths)]
    return _copy_each(tokens, places, lengths)


def gather_pairs(tokens: np.ndarray, places: np.ndarray, lengths: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Return (inputs, targets): stretches that begin at `places`, and those one token after them.

    Rows, where all are of one length; else pieces of 1 token or more, joined.
    """
    if isinstance(lengths, int):
        return gather_rows(tokens, places, lengths), gather_rows(tokens, places + 1, lengths)
    inputs = gather_pieces(tokens, places, lengths)
    targets = np.empty_like(inputs)
    targets[:-1] = inputs[1:]
    targets[np.cumsum(lengths) - 1] = tokens[places + lengths]
    return inputs, targets


def _copy_each(tokens: np.ndarray, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    ends = places + lengths
    pieces = [tokens[start:end] for start, end in zip(places.tolist(), ends.tolist(), strict=True)]
    return np.concatenate([tokens[:0], *pieces])


def group_by_shard(shards: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (shard, its indexes in `shards`) for each shard, in order."""
    # Integers of up to 16 bits are sorted 4 times faster.
    order = np.argsort(shards.astype(np.min_scalar_type(-1 - int(shards.max(initial=0)))), kind="stable")
    ordered = shards[order]
    edges = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
    for first, end in pairwise(edges):
        if first < end:
            yield int(ordered[first]), order[first:end]


def join_ranges(firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return range(first, first + count) of each pair, joined: [5, 1] and [2, 3] give 5 6 1 2 3."""
    indexes = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
    indexes += np.arange(len(indexes))
    return indexes
