"""Several stores read as one, in which each has its share of the tokens."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dataservice.errors import DataError, StoreError
from dataservice.store.gathering import group_by_shard
from dataservice.store.manifest import totals
from dataservice.store.origin import LocalOrigin
from dataservice.store.reader import Store
from dataservice.store.table import ARRAY_FIELDS, ShardTable

if TYPE_CHECKING:
    from tokenizer import Tokenizer

__all__ = ["MixedStore", "interleave"]


class MixedStore(Store):
    """Shards of several complete stores in one order, so that every stretch of it has tokens by the weights.

    An epoch has every shard of every store at least once: the store that would last longest is passed through once,
    the others as often as their share asks for, the last pass perhaps in part. Shares are exact but for the size of a
    shard. All else (windows, decomposition, schedule, digests) is as of one store with these shards.

    Attributes:
        members: (int64[shards], int64[shards]) of which store each shard is, and which one it is there.
    """

    def __init__(self, path: Path, stores: Sequence[Store], members: tuple[np.ndarray, np.ndarray]) -> None:
        self._stores = stores
        self.members = members
        self.bytes_at_once = max(store.bytes_at_once for store in stores)
        table = _take(stores, *members)
        manifest = replace(
            stores[0].manifest, shards=len(table), planned_shards=len(table), totals=totals(table), held_out=False
        )
        held_out = None
        if all(store.held_out is not None for store in stores):
            held_out = _HeldOut(path, [store.held_out for store in stores if store.held_out is not None], members)
        super().__init__(path, manifest, table, held_out, LocalOrigin(path))

    @classmethod
    def of(cls, stores: Sequence[Store], weights: Sequence[float], path: Path) -> "MixedStore":
        """Mix complete stores of one tokenizer; row indexes are cached in `path`/indexes.

        Raises StoreError for stores that do not go together.
        """
        for store in stores:
            if not store.is_complete:
                have = f"{len(store.shards)} of {store.num_planned_shards} shards"
                raise StoreError(f"store {store.path} must be complete to be mixed, got {have}; run prepare again")
            if store.manifest.tokens_of != stores[0].manifest.tokens_of:
                first, other = (each.manifest.tokens_of.fingerprint for each in (stores[0], store))
                raise StoreError(
                    f"stores that are mixed must have one tokenizer, got {first} in {stores[0].path} and {other} in "
                    f"{store.path}; prepare them with the same one"
                )
            if not store.shards.documents.any():
                raise StoreError(f"store {store.path} must hold documents to be mixed, got none; leave it out")
        digests = [store.prefix_digest(len(store.shards)) for store in stores]
        for store, digest in zip(stores, digests, strict=True):
            if digests.count(digest) > 1:
                raise StoreError(
                    f"stores that are mixed must differ, got the documents of {store.path} twice; name it once, with "
                    "the sum of the weights"
                )
        return cls(path, stores, interleave([store.shards.tokens for store in stores], weights))

    def describe(self) -> list[str]:
        """A line a store: its tokens in an epoch, its share, and how often it is passed through."""
        of_store, _ = self.members
        lines = []
        for number, store in enumerate(self._stores):
            taken = int(self.shards.tokens[of_store == number].sum())
            share, passes = taken / self.shards.tokens.sum(), taken / store.shards.tokens.sum()
            lines.append(f"{store.path}: {taken:,} tokens, {share:.2%} of an epoch, {passes:.2f} passes")
        return lines

    def refresh(self) -> None:
        """Nothing: complete stores do not grow."""

    def tokenizer(self) -> "Tokenizer":
        """The tokenizer that made all of the stores."""
        return self._stores[0].tokenizer()

    def read_rows(self, shards: np.ndarray | int, starts: np.ndarray, width: int) -> np.ndarray:
        """As of any store."""
        rows = np.empty((len(starts), width), self.dtype)
        of_store, numbers = (column[np.broadcast_to(shards, starts.shape)] for column in self.members)
        for store, here in group_by_shard(of_store):
            rows[here] = self._stores[store].read_rows(numbers[here], starts[here], width)
        return rows

    def read_pieces(self, shards: np.ndarray | int, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """As of any store."""
        of_store, numbers = (column[np.broadcast_to(shards, starts.shape)] for column in self.members)
        joined = np.empty(int(lengths.sum()), self.dtype)
        # is_of: (tokens,) the store of every token of the result
        is_of = np.repeat(of_store, lengths)
        for store, here in group_by_shard(of_store):
            joined[is_of == store] = self._stores[store].read_pieces(numbers[here], starts[here], lengths[here])
        return joined

    def read_pairs(
        self, shards: np.ndarray | int, starts: np.ndarray, lengths: np.ndarray | int
    ) -> tuple[np.ndarray, np.ndarray]:
        """As of any store."""
        of_store, numbers = (column[np.broadcast_to(shards, starts.shape)] for column in self.members)
        shape = (len(starts), lengths) if isinstance(lengths, int) else (int(lengths.sum()),)
        inputs, targets = (np.empty(shape, self.dtype) for _ in range(2))
        # of_place: (rows,) or (tokens,) the store of every one of the result
        of_place = of_store if isinstance(lengths, int) else np.repeat(of_store, lengths)
        for store, here in group_by_shard(of_store):
            part = lengths if isinstance(lengths, int) else lengths[here]
            is_here = of_place == store
            inputs[is_here], targets[is_here] = self._stores[store].read_pairs(numbers[here], starts[here], part)
        return inputs, targets

    def mirrored_bytes(self) -> np.ndarray:
        """As of any store."""
        of_store, numbers = self.members
        sizes = np.zeros(len(numbers), np.int64)
        for store, here in group_by_shard(of_store):
            sizes[here] = self._stores[store].mirrored_bytes()[numbers[here]]
        return sizes

    def tokens(self, shard: int) -> np.ndarray:
        """As of any store."""
        store, number = self._member(shard)
        return store.tokens(number)

    def documents(self, shard: int) -> np.ndarray:
        """As of any store."""
        store, number = self._member(shard)
        return store.documents(number)

    def sources(self, shard: int) -> pa.Table:
        """As of any store."""
        store, number = self._member(shard)
        return store.sources(number)

    def _member(self, shard: int) -> tuple[Store, int]:
        of_store, numbers = self.members
        return self._stores[of_store[shard]], int(numbers[shard])


class _HeldOut(MixedStore):
    """Held-out documents of mixed stores: a shard that comes again has none, so that each document is there once."""

    def __init__(self, path: Path, stores: Sequence[Store], members: tuple[np.ndarray, np.ndarray]) -> None:
        super().__init__(path, stores, members)
        seen = np.unique(np.stack(members), axis=1, return_index=True)[1]
        self._is_again = np.ones(len(self.shards), bool)
        self._is_again[seen] = False
        columns = {name: getattr(self.shards, name).copy() for name in ARRAY_FIELDS}
        for name in ARRAY_FIELDS:
            columns[name][self._is_again] = 0
        digests = tuple("" if again else d for again, d in zip(self._is_again, self.shards.digests, strict=True))
        self.shards = replace(self.shards, digests=digests, **columns)

    def documents(self, shard: int) -> np.ndarray:
        """None in a shard that comes again: the place of the first <eod> alone."""
        return np.zeros(1, np.int64) if self._is_again[shard] else super().documents(shard)


MOST_SHARDS = 100_000_000


def interleave(tokens: Sequence[np.ndarray], weights: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Order the shards of stores so that tokens come by weight everywhere.

    A shard stands where its middle is in the stretch of its store; of equal places the earlier store is first.

    Args:
        tokens: int64[shards] of each store.
        weights: shares of the tokens, positive; only their ratios matter.

    Returns:
        (int64, int64): of each place, the store and which of its shards.

    >>> interleave([np.array([10, 10]), np.array([10])], [1, 1])
    (array([0, 1, 0, 1]), array([0, 0, 1, 0]))
    """
    sizes = np.array([each.sum() for each in tokens])
    passes = np.array(weights) / sizes
    with np.errstate(over="ignore", divide="ignore"):
        passes = passes / passes.min()
    if not (num_shards := sum(passes * list(map(len, tokens)))) <= MOST_SHARDS:
        raise DataError(
            f"data.store must mix stores in at most {MOST_SHARDS:,} shards, got {num_shards:.3g} by these weights; "
            "bring weights nearer to the sizes of the stores"
        )
    stores, numbers, places = [], [], []
    for store, each in enumerate(tokens):
        wanted = passes[store] * sizes[store]
        order = np.tile(np.arange(len(each)), int(np.ceil(passes[store])) + 1)
        ends = np.cumsum(each[order])
        middles = (ends - each[order] / 2) / wanted
        # A shard is in when its middle is: so a whole pass is exactly the shards, and a part ends at the nearest shard.
        is_in = middles < 1 - 1e-12
        stores.append(np.full(is_in.sum(), store))
        numbers.append(order[is_in])
        places.append(middles[is_in])
    order = np.argsort(np.concatenate(places), kind="stable")
    return np.concatenate(stores)[order], np.concatenate(numbers)[order]


def _take(stores: Sequence[Store], of_store: np.ndarray, numbers: np.ndarray) -> ShardTable:
    tables = [store.shards for store in stores]
    rows = np.cumsum([0, *map(len, tables)])[of_store] + numbers
    columns = {name: np.concatenate([getattr(table, name) for table in tables])[rows] for name in ARRAY_FIELDS}
    names = [name for table in tables for name in table.names]
    digests = [digest for table in tables for digest in table.digests]
    return ShardTable(
        names=tuple(names[row] for row in rows),
        digests=tuple(digests[row] for row in rows),
        root=tables[0].root,
        **columns,
    )
