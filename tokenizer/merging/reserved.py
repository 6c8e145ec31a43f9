"""Spellings that no merge may make: those that stand for special tokens."""

from collections.abc import Collection

import numpy as np

__all__ = ["Reserved"]

NUM_BYTES = 256


class Reserved:
    """Tells which pairs would spell one of some byte strings, of two bytes or more each."""

    def __init__(self, spellings: Collection[bytes], known_pairs: np.ndarray, num_tokens: int) -> None:
        self._spellings = frozenset(spellings)
        # By token: its first and its last byte, and its parts.
        self._firsts = np.zeros(num_tokens, np.uint8)
        self._lasts = np.zeros(num_tokens, np.uint8)
        self._parts = np.zeros((num_tokens, 2), np.int32)
        self._firsts[:NUM_BYTES] = self._lasts[:NUM_BYTES] = np.arange(NUM_BYTES)
        if self._spellings:
            for number, (left, right) in enumerate(known_pairs.tolist(), NUM_BYTES):
                self.describe(np.array([number]), np.array([left]), np.array([right]))
        self._codes = _codes(*(np.array([pick(one) for one in self._spellings], np.int64) for pick in _ENDS))

    def describe(self, tokens: np.ndarray, lefts: np.ndarray, rights: np.ndarray) -> None:
        """Note that merging lefts[i] and rights[i] makes tokens[i]."""
        self._firsts[tokens] = self._firsts[lefts]
        self._lasts[tokens] = self._lasts[rights]
        self._parts[tokens] = np.stack((lefts, rights), axis=1)

    def find(self, lefts: np.ndarray, rights: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the indices (int64) of the pairs that would; lengths (int64) are those of what they make, in bytes."""
        if not self._spellings:
            return np.zeros(0, np.int64)
        suspects = np.flatnonzero(np.isin(_codes(lengths, self._firsts[lefts], self._lasts[rights]), self._codes))
        pairs = zip(lefts[suspects].tolist(), rights[suspects].tolist(), strict=True)
        spells = [self._spell(left) + self._spell(right) in self._spellings for left, right in pairs]
        return suspects[np.array(spells, bool)]

    def _spell(self, token: int) -> bytes:
        if token < NUM_BYTES:
            return bytes([token])
        left, right = self._parts[token].tolist()
        return self._spell(left) + self._spell(right)


_ENDS = (len, lambda spelling: spelling[0], lambda spelling: spelling[-1])


def _codes(lengths: np.ndarray, firsts: np.ndarray, lasts: np.ndarray) -> np.ndarray:
    return lengths << 16 | firsts.astype(np.int64) << 8 | lasts
