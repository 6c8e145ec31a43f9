"""The tokens of many shards as one array, so that NumPy gathers from all of them in one call."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Span", "Tokens"]

Tokens = Callable[[int], np.ndarray]
"""The tokens of a shard by its number, as an array in memory or a memory map."""


class Span:
    """Opens shards when they are first asked for, and then finds stretches of them by looking up arrays alone.

    A call a shard would cost more than the copying of a row. Any thread may ask.
    """

    def __init__(self, tokens: Tokens, dtype: np.dtype, limit: int) -> None:
        """tokens: called once for each shard, or again where more than `limit` were asked for since."""
        self._tokens = tokens
        self._limit = limit
        self._opened = _Opened([], np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, dtype), 0)

    def locate(
        self, shards: np.ndarray, starts: np.ndarray, lengths: np.ndarray | int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return an array and where in it each stretch begins: tokens(shards[i])[starts[i] : starts[i] + lengths[i]].

        Nothing but the stretches may be read from the array. Raises IndexError for one that is not in its shard.
        """
        if min(starts.min(initial=0), lengths if isinstance(lengths, int) else lengths.min(initial=0)) < 0:
            raise IndexError("starts and lengths must be at least 0, got a negative one")
        # What is opened is never changed, only replaced by more, so that no thread sees half of it.
        opened = self._opened
        if shards.max(initial=-1) >= len(opened.firsts) or not opened.firsts[shards].all():
            opened = self._opened = self._open(opened, np.unique(shards))
        sizes = opened.sizes[shards]
        # Not starts + lengths > sizes: who asks may be another machine, and its sum too large for 64 bits.
        outside = starts > sizes - lengths
        if outside.any():
            at = int(outside.argmax())
            raise IndexError(f"stretches of shard {shards[at]} must be within its {sizes[at]} tokens, got others")
        return opened.whole, opened.firsts[shards] - opened.first + starts

    def _open(self, opened: "_Opened", shards: np.ndarray) -> "_Opened":
        """Return what is opened, with these shards as well."""
        size = max(len(opened.firsts), int(shards[-1]) + 1)
        arrays, firsts, sizes = list(opened.arrays), *np.zeros((2, size), np.int64)
        firsts[: len(opened.firsts)], sizes[: len(opened.sizes)] = opened.firsts, opened.sizes
        if len(arrays) + np.count_nonzero(firsts[shards] == 0) > self._limit:
            arrays, firsts[:] = [], 0
        dtype = opened.whole.dtype
        for shard in shards[firsts[shards] == 0].tolist():
            arrays.append(self._tokens(shard))
            firsts[shard], rest = divmod(arrays[-1].__array_interface__["data"][0], dtype.itemsize)
            sizes[shard] = len(arrays[-1])
            assert not rest and arrays[-1].dtype == dtype
        open_shards = np.flatnonzero(firsts)
        first, stop = int(firsts[open_shards].min()), int((firsts + sizes)[open_shards].max())
        return _Opened(arrays, firsts, sizes, np.asarray(_Memory(arrays, dtype, first, stop)), first)


class _Opened(NamedTuple):
    """Shards that are open; `firsts` are positions in memory, counted in tokens, and 0 where a shard is not open."""

    arrays: list[np.ndarray]
    firsts: np.ndarray  # int64[shards]
    sizes: np.ndarray  # int64[shards]
    whole: np.ndarray
    first: int  # that of `whole`


class _Memory:
    """All memory from the first to the last of several arrays, which live as long as this.

    What lies between them need not be theirs, nor there.
    """

    def __init__(self, arrays: Sequence[np.ndarray], dtype: np.dtype, first: int, stop: int) -> None:
        self._arrays = arrays
        place = (first * dtype.itemsize, True)  # read only
        self.__array_interface__ = {"version": 3, "shape": (stop - first,), "typestr": dtype.str, "data": place}
