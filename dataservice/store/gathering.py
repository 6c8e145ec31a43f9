"""Tokens of many stretches of many shards at once: rows of one width, or pieces of any lengths joined."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

__all__ = ["Tokens", "gather_pieces", "gather_rows", "group_by_shard", "join_ranges"]

Tokens = Callable[[int], np.ndarray]
"""The tokens of a shard by its number, as an array in memory or a memory map."""

# Below this mean length one gather of single tokens is faster than a copy a piece.
_SHORT_PIECE = 256


def gather_rows(tokens: Tokens, dtype: np.dtype, shards: np.ndarray, starts: np.ndarray, width: int) -> np.ndarray:
    """Return row i = tokens(shards[i])[starts[i] : starts[i] + width] for all i; (n, width) of `dtype`.

    Raises IndexError when a row is not within its shard.
    """
    if starts.min(initial=0) < 0:
        raise IndexError(f"starts of rows must be at least 0, got {starts.min()}")
    item = _stretch_type(dtype, width)
    rows = np.empty(len(starts), item)
    for shard, here in group_by_shard(shards):
        whole = tokens(shard)
        if len(whole) < width:
            raise IndexError(f"rows of shard {shard} must be of at most {len(whole)} tokens, got {width}")
        # stretches: (len(whole) - width + 1,) all stretches of `width` tokens, each one item
        stretches = np.ndarray((len(whole) - width + 1,), item, whole, 0, whole.strides)
        rows[here] = stretches[starts[here]]
    return rows.view(dtype).reshape(-1, width)


def gather_pieces(
    tokens: Tokens, dtype: np.dtype, shards: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Return tokens(shards[i])[starts[i] : starts[i] + lengths[i]] of all i, joined; (sum of lengths,) of `dtype`.

    Raises IndexError when a piece is not within its shard.
    """
    if min(starts.min(initial=0), lengths.min(initial=0)) < 0:
        raise IndexError("starts and lengths of pieces must be at least 0, got a negative one")
    ends = np.cumsum(lengths)
    joined = np.empty(ends[-1] if len(ends) else 0, dtype)
    is_short = len(joined) < _SHORT_PIECE * len(lengths)
    for shard, here in group_by_shard(shards):
        whole, first, size = tokens(shard), starts[here], lengths[here]
        if (first + size).max() > len(whole):
            raise IndexError(f"pieces of shard {shard} must end by {len(whole)}, got {(first + size).max()}")
        places = ends[here] - size
        if is_short:
            joined[join_ranges(places, size)] = whole[join_ranges(first, size)]
            continue
        for place, start, count in zip(places.tolist(), first.tolist(), size.tolist(), strict=True):
            joined[place : place + count] = whole[start : start + count]
    return joined


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
    shift = firsts - (np.cumsum(counts) - counts)
    return np.arange(counts.sum()) + np.repeat(shift, counts)


def _stretch_type(dtype: np.dtype, width: int) -> np.dtype:
    """Return the type of `width` tokens as one item, which NumPy copies 2 to 3 times faster than a row of items."""
    return np.dtype((np.void, width * dtype.itemsize))
