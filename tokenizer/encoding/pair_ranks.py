"""The rank of a merge by its pair: a hash table that answers for whole arrays of pairs."""

import numpy as np

from tokenizer.config import MOST_MERGES
from tokenizer.errors import TokenizerError

__all__ = ["NO_RANK", "PairRanks"]

NO_RANK = np.int32(np.iinfo(np.int32).max)
"""Rank of a pair that is never merged: after every merge."""

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
EMPTY = np.int64(-1)


class PairRanks:
    """Open addressing with linear probing over (left id, right id), at most one slot in eight in use."""

    def __init__(self, pairs: np.ndarray) -> None:
        # pairs: (merges, 2) token ids
        self.pairs = np.asarray(pairs, np.int32).reshape(-1, 2)
        if len(self.pairs) > MOST_MERGES:
            raise TokenizerError(f"a vocabulary must have at most {MOST_MERGES} merges, got {len(self.pairs)}")
        bits = max(4, int(8 * len(self.pairs)).bit_length())
        self._shift = np.uint64(64 - bits)
        self._mask = np.int64((1 << bits) - 1)
        self._keys = np.full(1 << bits, EMPTY)
        self._ranks = np.full(1 << bits, NO_RANK)
        self._insert(_keys_of(self.pairs[:, 0], self.pairs[:, 1]))
        byte = np.arange(256)
        self._byte_ranks = self.find(np.repeat(byte, 256), np.tile(byte, 256))

    def _insert(self, keys: np.ndarray) -> None:
        ranks = np.arange(keys.size, dtype=np.int32)
        slots = self._slots(keys)
        while keys.size:
            is_free = self._keys[slots] == EMPTY
            self._keys[slots[is_free]] = keys[is_free]  # of several keys for one slot the last stays
            is_placed = self._keys[slots] == keys
            self._ranks[slots[is_placed]] = ranks[is_placed]
            keys, ranks = keys[~is_placed], ranks[~is_placed]
            slots = (slots[~is_placed] + 1) & self._mask

    def find(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Ranks, int32[n], of the pairs (left[i], right[i]); ``NO_RANK`` for pairs that are no merge."""
        keys = _keys_of(left, right)
        slots = self._slots(keys)
        found = self._keys[slots]
        pending = np.flatnonzero((found != keys) & (found != EMPTY))
        while pending.size:
            slots[pending] = (slots[pending] + 1) & self._mask
            found = self._keys[slots[pending]]
            pending = pending[(found != keys[pending]) & (found != EMPTY)]
        return self._ranks[slots]  # an empty slot holds NO_RANK

    def find_bytes(self, data: np.ndarray) -> np.ndarray:
        """Ranks, int32[n], of each byte with the next; the last is ``NO_RANK``. ``data``: uint8[n]."""
        ranks = np.full(data.size, NO_RANK)
        codes = data[:-1].astype(np.uint16) << 8
        codes |= data[1:]
        ranks[:-1] = self._byte_ranks[codes]
        return ranks

    def _slots(self, keys: np.ndarray) -> np.ndarray:
        return ((keys.view(np.uint64) * MULTIPLIER) >> self._shift).astype(np.int64)


def _keys_of(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    keys = left.astype(np.int64)
    keys <<= 32
    keys |= right
    return keys
