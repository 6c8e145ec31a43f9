"""A table of distinct words: arrays of bytes in, word numbers out, many at once."""

import hashlib
from typing import NamedTuple

import numpy as np

from tokenizer.ragged import offsets_of

__all__ = ["WordTable"]

# A word of at most 7 bytes is its own key: the length in the lowest byte, and the bytes from the top. A longer one gets
# a hash over a lowest byte that no length uses, and is compared byte by byte.
_EXACT_BYTES = 7
_LONG = np.uint64(0xFF)
_CHUNKED_BYTES = 64  # longer words are rare; they are hashed and compared one at a time
_SLOTS_PER_WORD = 4  # at least
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xC2B2AE3D27D4EB4F)


class WordTable:
    """Numbers distinct words 0, 1, ... in the order of their first occurrence.

    Open addressing in two arrays: the key of a slot (0: empty) and the word in it. Equality is decided on the bytes.
    """

    def __init__(self) -> None:
        self.size = 0
        self._bytes = np.zeros(1 << 12, np.uint8)
        self._offsets = np.zeros(1 << 10, np.int64)
        # (capacity,) each, by word: key, length, and the first and last 8 bytes (of words that have as many)
        self._keys = np.zeros(1 << 10, np.uint64)
        self._lengths = np.zeros(1 << 10, np.int64)
        self._firsts = np.zeros(1 << 10, np.uint64)
        self._lasts = np.zeros(1 << 10, np.uint64)
        self._slot_keys = np.zeros(1 << 14, np.uint64)
        self._slot_words = np.zeros(1 << 14, np.int32)

    @property
    def data(self) -> np.ndarray:
        """The bytes (uint8) of all words, one after another."""
        return self._bytes[: self._offsets[self.size]]

    @property
    def offsets(self) -> np.ndarray:
        """Where each word starts in `data`, then the end of the last (int64[size + 1])."""
        return self._offsets[: self.size + 1]

    def identify(self, data: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return the number of each word data[starts[i]:starts[i + 1]] (int64[words]); new words are added.

        `data` is uint8, `starts` is int64[words + 1], rising: words are not empty.
        """
        batch = _make_batch(data, starts)
        words = self._find(batch).astype(np.int64)
        # One round adds all new words, but for two whose 56-bit hashes are equal: the second waits for the next.
        while len(unknown := np.flatnonzero(words < 0)):
            rest = batch.take(unknown)
            firsts, groups = _group_keys(rest.keys)
            added = groups + self.size
            self._append(rest.take(firsts))
            is_right = np.ones(len(unknown), bool)
            self._reject(is_right, rest, added)
            words[unknown[is_right]] = added[is_right]
        return words

    def _find(self, batch: "_Batch") -> np.ndarray:
        """Return the number of each word (int32), -1 for those that are unknown."""
        slots = self._first_slots(batch.keys)
        slot_keys = self._slot_keys.take(slots)
        found = self._slot_words.take(slots)
        is_right = slot_keys == batch.keys
        self._reject(is_right, batch, found)
        found[~is_right] = -1
        pending = np.flatnonzero((found < 0) & (slot_keys != 0))
        batch, slots = batch.take(pending), slots[pending]
        while len(pending):
            slots = (slots + 1) & (len(self._slot_keys) - 1)
            slot_keys, candidates = self._slot_keys[slots], self._slot_words[slots]
            is_right = slot_keys == batch.keys
            self._reject(is_right, batch, candidates)
            found[pending[is_right]] = candidates[is_right]
            goes_on = np.flatnonzero(~is_right & (slot_keys != 0))
            batch, pending, slots = batch.take(goes_on), pending[goes_on], slots[goes_on]
        return found

    def _reject(self, is_right: np.ndarray, batch: "_Batch", words: np.ndarray) -> None:
        """Clear `is_right` where a long word is not, byte by byte, the word whose number is given."""
        suspects = np.flatnonzero(is_right & (batch.lengths > _EXACT_BYTES))
        if len(suspects) == 0:
            return
        heads, lengths, words = batch.starts[suspects], batch.lengths[suspects], words[suspects]
        ours, theirs = _chunks(batch.padded), _chunks(self._bytes)
        is_equal = lengths == self._lengths[words]
        is_equal &= ours[heads] == self._firsts[words]
        is_equal &= ours[heads + lengths - 8] == self._lasts[words]
        active = np.flatnonzero(is_equal & (lengths > 16) & (lengths <= _CHUNKED_BYTES))
        for done in range(8, _CHUNKED_BYTES - 8, 8):
            active = active[lengths[active] > done + 8]
            if len(active) == 0:
                break
            steps = np.minimum(done, lengths[active] - 8)
            differs = ours[heads[active] + steps] != theirs[self._offsets[words[active]] + steps]
            is_equal[active[differs]] = False
        for index in np.flatnonzero(is_equal & (lengths > _CHUNKED_BYTES)).tolist():
            head, at, length = heads[index], self._offsets[words[index]], lengths[index]
            is_equal[index] = np.array_equal(batch.padded[head : head + length], self._bytes[at : at + length])
        is_right[suspects] = is_equal

    def _append(self, batch: "_Batch") -> None:
        """Add words, of which no two are equal and none is known."""
        offsets = offsets_of(batch.lengths)
        end, size = int(self._offsets[self.size]), self.size + len(batch.keys)
        self._bytes = _grown(self._bytes, end + int(offsets[-1]) + 8)
        self._offsets = _grown(self._offsets, size + 1)
        self._lengths, self._keys = _grown(self._lengths, size), _grown(self._keys, size)
        self._firsts, self._lasts = _grown(self._firsts, size), _grown(self._lasts, size)
        source = np.repeat(batch.starts - offsets[:-1], batch.lengths) + np.arange(offsets[-1])
        self._bytes[end : end + len(source)] = batch.padded[source]
        added = slice(self.size, size)
        self._offsets[self.size + 1 : size + 1] = end + offsets[1:]
        self._lengths[added], self._keys[added] = batch.lengths, batch.keys
        chunks = _chunks(batch.padded)
        self._firsts[added] = chunks[batch.starts]
        self._lasts[added] = chunks[np.maximum(batch.starts + batch.lengths - 8, 0)]
        new = np.arange(self.size, size)
        self.size = size
        if _SLOTS_PER_WORD * size > len(self._slot_keys):
            capacity = len(_grown(self._slot_keys, 2 * _SLOTS_PER_WORD * size))
            self._slot_keys = np.zeros(capacity, np.uint64)
            self._slot_words = np.zeros(capacity, np.int32)
            new = np.arange(size)
        self._place(new)

    def _place(self, words: np.ndarray) -> None:
        """Put words into free slots; of several that want one slot the first gets it and the others move on."""
        slots = self._first_slots(self._keys[words])
        while len(words):
            free = np.flatnonzero(self._slot_keys[slots] == 0)
            self._slot_words[slots[free][::-1]] = words[free][::-1]
            placed = free[self._slot_words[slots[free]] == words[free]]
            self._slot_keys[slots[placed]] = self._keys[words[placed]]
            waits = np.ones(len(words), bool)
            waits[placed] = False
            words, slots = words[waits], (slots[waits] + 1) & (len(self._slot_keys) - 1)

    def _first_slots(self, keys: np.ndarray) -> np.ndarray:
        shift = np.uint64(65 - len(self._slot_keys).bit_length())
        return ((keys * _GOLDEN) >> shift).view(np.int64)


class _Batch(NamedTuple):
    """Words to look up."""

    padded: np.ndarray  # uint8: their bytes somewhere in it, and 8 more at its end
    starts: np.ndarray  # int64[words]
    lengths: np.ndarray  # int64[words]
    keys: np.ndarray  # uint64[words], never 0: equal for equal words; equal ones of short words mean equal words

    def take(self, chosen: np.ndarray) -> "_Batch":
        return _Batch(self.padded, self.starts[chosen], self.lengths[chosen], self.keys[chosen])


def _make_batch(data: np.ndarray, starts: np.ndarray) -> _Batch:
    padded = np.concatenate((data, np.zeros(8, np.uint8)))
    chunks = _chunks(padded)
    starts, lengths = starts[:-1], np.diff(starts)
    exact = np.minimum(lengths, _EXACT_BYTES).view(np.uint64)
    keys = chunks[starts] << (np.uint64(64) - (exact << np.uint64(3)))
    keys |= exact
    long = np.flatnonzero(lengths > _EXACT_BYTES)
    keys[long] = _hash(padded, chunks, starts[long], lengths[long]) | _LONG
    return _Batch(padded, starts, lengths, keys)


def _hash(padded: np.ndarray, chunks: np.ndarray, heads: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each word of 8 bytes or more, from chunks or, past _CHUNKED_BYTES, from BLAKE2."""
    hashes = lengths.astype(np.uint64)
    active = np.flatnonzero(lengths <= _CHUNKED_BYTES)
    for done in range(0, _CHUNKED_BYTES, 8):
        active = active[lengths[active] > done]
        if len(active) == 0:
            break
        # The last chunk reaches back over the one before it, so that no chunk leaves its word.
        mixed = (hashes[active] ^ chunks[heads[active] + np.minimum(done, lengths[active] - 8)]) * _GOLDEN
        hashes[active] = (mixed ^ (mixed >> np.uint64(29))) * _MIXER
    for index in np.flatnonzero(lengths > _CHUNKED_BYTES).tolist():
        word = padded[heads[index] : heads[index] + lengths[index]]
        hashes[index] = int.from_bytes(hashlib.blake2b(word.tobytes(), digest_size=8).digest(), "little")
    return hashes ^ (hashes >> np.uint64(32))


def _chunks(data: np.ndarray) -> np.ndarray:
    """View bytes as overlapping little-endian numbers of 8 bytes: element i holds data[i : i + 8] (uint64)."""
    return np.lib.stride_tricks.as_strided(data[:8].view("<u8"), (len(data) - 7,), (1,))


def _group_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first index of each distinct key, rising (int64), and for every key the place of its own in these.

    >>> _group_keys(np.array([7, 5, 7]))
    (array([0, 1]), array([0, 1, 0]))
    """
    order = np.argsort(keys)
    is_start = np.ones(len(keys), bool)
    is_start[1:] = np.diff(keys[order]) != 0
    firsts = np.minimum.reduceat(order, np.flatnonzero(is_start))
    by_place = np.argsort(firsts)
    places = np.empty_like(by_place)
    places[by_place] = np.arange(len(by_place))
    groups = np.empty_like(order)
    groups[order] = places[np.cumsum(is_start) - 1]
    return firsts[by_place], groups


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    """Return `array`, or a copy at least twice as long that has room for `size` elements (zeros)."""
    if size <= len(array):
        return array
    grown = np.zeros(1 << (max(size, 2 * len(array)) - 1).bit_length(), array.dtype)
    grown[: len(array)] = array
    return grown
