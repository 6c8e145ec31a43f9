"""A store that is read through a mirror: files of several shards are fetched at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

import numpy as np

from dataservice.store.maps import MapCache
from dataservice.store.reader import Store
from dataservice.store.retrying import in_this_context
from dataservice.store.span import Span

__all__ = ["MirroredStore"]

FILES_AT_ONCE = 8

Fetched = TypeVar("Fetched")


class MirroredStore(Store):
    """A `Store` whose origin is a mirror."""

    def expect_documents(self, shards: Sequence[int]) -> None:
        """Fetches the positions of documents of several shards."""
        self._together(lambda shard: self.check_file(shard, "documents.npy"), shards)

    def _locate(
        self, shards: np.ndarray | int, starts: np.ndarray, lengths: np.ndarray | int
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Span.locate`. Shards that are not open are fetched together; those asked for stay open while in use."""
        assert isinstance(self._map, MapCache)
        # numbers: (n,) of each stretch, that of its shard among those asked for
        asked, numbers = np.unique(np.broadcast_to(shards, starts.shape), return_inverse=True)
        missing = [shard for shard in asked.tolist() if (shard, "tokens.npy", self.dtype) not in self._map]
        opened = dict(zip(missing, self._together(self.tokens, missing), strict=True))
        arrays = [opened[shard] if shard in opened else self.tokens(shard) for shard in asked.tolist()]
        return Span(arrays.__getitem__, self.dtype, len(arrays)).locate(numbers, starts, lengths)

    def _together(self, fetch: Callable[[int], Fetched], shards: Sequence[int]) -> list[Fetched]:
        """What `fetch` returns for each shard."""
        return list(self._pool.map(in_this_context(fetch), shards) if len(shards) > 1 else map(fetch, shards))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(FILES_AT_ONCE, "dataservice-files")
