"""Tokens of many stretches of many shards at once: rows of one width, or pieces of any lengths joined."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

__all__ = ["Tokens", "gather_pairs", "gather_pieces", "gather_rows", "group_by_shard", "join_ranges"]

Tokens = Callable[[int], np.ndarray]
"""The tokens of a shard by its number, as an array in memory or a memory map."""

# Below this mean length one gather of single tokens is faster than a copy a piece.
_SHORT_PIECE = 256
# Above this length a copy a row is as fast as one gather of rows.
_LONG_ROW = 4096


def gather_rows(tokens: Tokens, dtype: np.dtype, shards: np.ndarray, starts: np.ndarray, width: int) -> np.ndarray:
    """Return row i = tokens(shards[i])[starts[i] : starts[i] + width] for all i; (n, width) of `dtype`.

    Raises IndexError when a row is not within its shard.
    """
    whole, places = _span(tokens, dtype, shards, starts, width)
    return _take_rows(whole, places, width)


def gather_pieces(
    tokens: Tokens, dtype: np.dtype, shards: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Return tokens(shards[i])[starts[i] : starts[i] + lengths[i]] of all i, joined; (sum of lengths,) of `dtype`.

    Raises IndexError when a piece is not within its shard.
    """
    whole, places = _span(tokens, dtype, shards, starts, lengths)
    return _take_pieces(whole, places, lengths)


def gather_pairs(
    tokens: Tokens, dtype: np.dtype, shards: np.ndarray, starts: np.ndarray, lengths: np.ndarray | int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (inputs, targets): stretches that begin at `starts`, and those one token after them.

    Rows, as of `gather_rows`, where all are of one length; else pieces of 1 token or more, as of `gather_pieces`.
    """
    whole, places = _span(tokens, dtype, shards, starts, lengths + 1)
    if isinstance(lengths, int):
        return _take_rows(whole, places, lengths), _take_rows(whole, places + 1, lengths)
    inputs = _take_pieces(whole, places, lengths)
    targets = np.empty_like(inputs)
    targets[:-1] = inputs[1:]
    targets[np.cumsum(lengths) - 1] = whole[places + lengths]
    return inputs, targets


def group_by_shard(shards: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (shard, its indexes in `shards`) for each shard, in order."""
    order, edges = _sort(shards)
    for first, end in pairwise(edges):
        yield int(shards[order[first]]), order[first:end]


def join_ranges(firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return range(first, first + count) of each pair, joined: [5, 1] and [2, 3] give 5 6 1 2 3."""
    indexes = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
    indexes += np.arange(len(indexes))
    return indexes


def _sort(shards: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return (indexes in order of shards, where those of each begin, and the end)."""
    # Integers of up to 16 bits are sorted 4 times faster.
    order = np.argsort(shards.astype(np.min_scalar_type(-1 - int(shards.max(initial=0)))), kind="stable")
    ordered = shards[order]
    edges = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
    return order, edges if len(order) else [0]


class _Span:
    """All memory from the first to the last of several arrays, which live as long: `np.asarray` makes it one array.

    What lies between them need not be theirs, nor there: only indexes of their own items may be looked up.
    """

    def __init__(self, arrays: Sequence[np.ndarray], dtype: np.dtype, addresses: np.ndarray, sizes: np.ndarray) -> None:
        self._arrays = arrays
        self.first = int(addresses.min())
        size = (int((addresses + sizes * dtype.itemsize).max()) - self.first) // dtype.itemsize
        # Read only.
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": dtype.str, "data": (self.first, True)}


def _span(
    tokens: Tokens, dtype: np.dtype, shards: np.ndarray, starts: np.ndarray, lengths: np.ndarray | int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of all of these shards as one array, and where in it each of the stretches starts.

    NumPy gathers from one array in one call, whose cost would else be paid for every shard of a batch.
    """
    if min(starts.min(initial=0), np.min(lengths, initial=0)) < 0:
        raise IndexError("starts and lengths must be at least 0, got a negative one")
    order, edges = _sort(shards)
    arrays = [tokens(shard) for shard in shards[order[edges[:-1]]].tolist()]
    if not arrays:
        return np.empty(0, dtype), starts
    sizes = np.array([len(array) for array in arrays])
    addresses = np.array([array.__array_interface__["data"][0] for array in arrays])
    # array: (n,) which of the arrays each stretch is in
    array = np.empty_like(order)
    array[order] = np.repeat(np.arange(len(arrays)), np.diff(edges))
    # Not starts + lengths > sizes: who asks may be another machine, and its sum too large for 64 bits.
    outside = starts > sizes[array] - lengths
    if outside.any():
        at = int(outside.argmax())
        raise IndexError(f"stretches of shard {shards[at]} must be within its {sizes[array[at]]} tokens, got others")
    span = _Span(arrays, dtype, addresses, sizes)
    firsts, rest = np.divmod(addresses - span.first, dtype.itemsize)
    assert not rest.any()
    return np.asarray(span), firsts[array] + starts


def _take_rows(whole: np.ndarray, places: np.ndarray, width: int) -> np.ndarray:
    if width > _LONG_ROW or not len(places):
        return _copy_each(whole, places, np.full(len(places), width)).reshape(-1, width)
    # stretches: (len(whole) - width + 1,) all stretches of `width` tokens, each one item, which NumPy copies 2 to 3
    # times faster than a row of items
    item = np.dtype((np.void, width * whole.itemsize))
    stretches = np.ndarray((len(whole) - width + 1,), item, whole, 0, whole.strides)
    return stretches[places].view(whole.dtype).reshape(-1, width)


def _take_pieces(whole: np.ndarray, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    if lengths.sum() < _SHORT_PIECE * len(lengths):
        return whole[join_ranges(places, lengths)]
    return _copy_each(whole, places, lengths)


def _copy_each(whole: np.ndarray, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    ends = places + lengths
    pieces = [whole[start:end] for start, end in zip(places.tolist(), ends.tolist(), strict=True)]
    return np.concatenate([whole[:0], *pieces])
