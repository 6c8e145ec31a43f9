"""A store that is read through a mirror: files of several shards are fetched at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

import numpy as np

from dataservice.store.gathering import Tokens
from dataservice.store.maps import MapCache
from dataservice.store.reader import Store

__all__ = ["MirroredStore"]

FILES_AT_ONCE = 8

Fetched = TypeVar("Fetched")


class MirroredStore(Store):
    """A `Store` whose origin is a mirror."""

    def expect_documents(self, shards: Sequence[int]) -> None:
        """Fetches the positions of documents of several shards."""
        self._together(lambda shard: self.check_file(shard, "documents.npy"), shards)

    def _fetch(self, shards: np.ndarray | int) -> Tokens:
        """The tokens of shards, of which those that are not open are fetched; all stay open while they are gathered."""
        assert isinstance(self._map, MapCache)
        missing = [shard for shard in np.unique(shards).tolist() if (shard, "tokens.npy", self.dtype) not in self._map]
        opened = dict(zip(missing, self._together(self.tokens, missing), strict=True))
        return lambda shard: opened[shard] if shard in opened else self.tokens(shard)

    def _together(self, fetch: Callable[[int], Fetched], shards: Sequence[int]) -> list[Fetched]:
        """What `fetch` returns for each shard."""
        return list(self._pool.map(fetch, shards) if len(shards) > 1 else map(fetch, shards))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(FILES_AT_ONCE, "dataservice-files")
