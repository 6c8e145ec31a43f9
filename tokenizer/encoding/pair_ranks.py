"""The rank of a merge by its pair: a hash table that answers for whole arrays of pairs."""

import numpy as np

from tokenizer.config import MOST_MERGES
from tokenizer.errors import TokenizerError

__all__ = ["NO_RANK", "NO_SYMBOL", "SYMBOL_BITS", "PairRanks"]

SYMBOL_BITS = 21  # of token ids and ranks: MOST_MERGES leaves the highest of each
NO_RANK = np.int32((1 << SYMBOL_BITS) - 1)
"""Rank of a pair that is never merged: after every merge."""
NO_SYMBOL = NO_RANK
"""Stands for what is no token: pairs with it are never merged."""

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SLOTS_PER_MERGE = 8
EMPTY = np.int64((1 << 3 * SYMBOL_BITS) - 1)


class PairRanks:
    """Open addressing with linear probing: a slot holds left id, right id and rank in one number."""

    def __init__(self, pairs: np.ndarray) -> None:
        # pairs: (merges, 2) token ids
        self.pairs = np.asarray(pairs, np.int32).reshape(-1, 2)
        if len(self.pairs) > MOST_MERGES:
            raise TokenizerError(f"a vocabulary must have at most {MOST_MERGES} merges, got {len(self.pairs)}")
        bits = max(4, int(SLOTS_PER_MERGE * len(self.pairs)).bit_length())
        self._shift = np.uint64(64 - bits)
        self._mask = np.int64((1 << bits) - 1)
        self._slots = np.full(1 << bits, EMPTY)
        self._insert(_keys_of(self.pairs[:, 0], self.pairs[:, 1]))
        byte = np.arange(256)
        self._byte_ranks = self.find(np.repeat(byte, 256), np.tile(byte, 256))

    def _insert(self, keys: np.ndarray) -> None:
        entries = keys << SYMBOL_BITS | np.arange(keys.size)
        at = self._first_slots(keys)
        while entries.size:
            is_free = self._slots[at] == EMPTY
            self._slots[at[is_free]] = entries[is_free]  # of several for one slot the last stays
            waits = self._slots[at] != entries
            entries, at = entries[waits], (at[waits] + 1) & self._mask

    def find(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Ranks, int32[n], of the pairs (left[i], right[i]); ``NO_RANK`` for pairs that are no merge."""
        keys = _keys_of(left, right)
        at = self._first_slots(keys)
        found = self._slots.take(at)
        is_other = found >> SYMBOL_BITS != keys
        pending = np.flatnonzero(is_other)
        pending = pending[found[pending] != EMPTY]
        while pending.size:
            at[pending] = (at[pending] + 1) & self._mask
            entries = self._slots[at[pending]]
            found[pending] = entries
            is_wrong = entries >> SYMBOL_BITS != keys[pending]
            is_other[pending] = is_wrong
            pending = pending[is_wrong & (entries != EMPTY)]
        ranks = found.astype(np.int32)
        ranks &= NO_RANK
        ranks[is_other] = NO_RANK
        return ranks

    def find_bytes(self, data: np.ndarray) -> np.ndarray:
        """Ranks, int32[n], of each byte with the next; the last is ``NO_RANK``. ``data``: uint8[n]."""
        ranks = np.full(data.size, NO_RANK)
        codes = data[:-1].astype(np.uint16) << 8
        codes |= data[1:]
        ranks[:-1] = self._byte_ranks[codes]
        return ranks

    def _first_slots(self, keys: np.ndarray) -> np.ndarray:
        return ((keys.view(np.uint64) * MULTIPLIER) >> self._shift).view(np.int64)


def _keys_of(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    keys = left.astype(np.int64)
    keys <<= SYMBOL_BITS
    keys |= right
    return keys
