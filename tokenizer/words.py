"""A table of distinct words: arrays of bytes in, word numbers out, many at once."""

import hashlib

import numpy as np

__all__ = ["WordTable"]

# A word of at most 7 bytes is its own key: the bytes, and the length on top. A longer one gets a hash under a top
# byte that no length uses, and is compared byte by byte.
_EXACT_BYTES = 7
_LONG = np.uint64(0xFF << 56)
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
_TAGS = np.array([length << 56 for length in range(8)], np.uint64)
_CHUNKED_BYTES = 64  # longer words are rare; they are hashed and compared one at a time
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
        self._keys = np.zeros(1 << 10, np.uint64)  # of each word
        self._slot_keys = np.zeros(1 << 11, np.uint64)
        self._slot_words = np.zeros(1 << 11, np.int32)

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
        padded = np.concatenate((data, np.zeros(8, np.uint8)))
        keys = _make_keys(padded, starts)
        words = self._find(padded, starts, keys, np.arange(len(keys)))
        # One round adds all new words, but for two whose 56-bit hashes are equal: the second waits for the next.
        while len(unknown := np.flatnonzero(words < 0)):
            added = unknown[_first_of_each(keys[unknown])]
            self._append(data, starts, keys, added)
            words[unknown] = self._find(padded, starts, keys, unknown)
        return words

    def _find(self, padded: np.ndarray, starts: np.ndarray, keys: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return the numbers of the chosen words, -1 where unknown."""
        keys = keys[chosen]
        slots = self._first_slots(keys)
        slot_keys = self._slot_keys[slots]
        found = self._slot_words[slots].astype(np.int64)
        is_right = slot_keys == keys
        suspects = np.flatnonzero(is_right & (keys >= _LONG))
        is_right[suspects] = self._equal(padded, starts, chosen[suspects], found[suspects])
        found[~is_right] = -1
        pending = np.flatnonzero(~is_right & (slot_keys != 0))
        slots = slots[pending]
        while len(pending):
            slots = (slots + 1) & (len(self._slot_keys) - 1)
            slot_keys, candidates = self._slot_keys[slots], self._slot_words[slots]
            is_right = slot_keys == keys[pending]
            suspects = np.flatnonzero(is_right & (slot_keys >= _LONG))
            is_right[suspects] = self._equal(padded, starts, chosen[pending[suspects]], candidates[suspects])
            found[pending[is_right]] = candidates[is_right]
            goes_on = ~is_right & (slot_keys != 0)
            pending, slots = pending[goes_on], slots[goes_on]
        return found

    def _equal(self, padded: np.ndarray, starts: np.ndarray, chosen: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Whether each chosen word has the bytes of the word whose number is given."""
        heads, lengths = starts[chosen], starts[chosen + 1] - starts[chosen]
        stored = self._offsets[words]
        is_equal = lengths == self._offsets[words + 1] - stored
        ours, theirs = _chunks(padded), _chunks(self._bytes)
        active = np.flatnonzero(is_equal & (lengths <= _CHUNKED_BYTES))
        for done in range(0, _CHUNKED_BYTES, 8):
            active = active[lengths[active] > done]
            if len(active) == 0:
                break
            differ = ours[heads[active] + done] ^ theirs[stored[active] + done]
            differ &= _MASKS[np.minimum(lengths[active] - done, 8)]
            is_equal[active[differ != 0]] = False
        for index in np.flatnonzero(is_equal & (lengths > _CHUNKED_BYTES)).tolist():
            head, at, length = heads[index], stored[index], lengths[index]
            is_equal[index] = np.array_equal(padded[head : head + length], self._bytes[at : at + length])
        return is_equal

    def _append(self, data: np.ndarray, starts: np.ndarray, keys: np.ndarray, chosen: np.ndarray) -> None:
        """Add words, of which no two are equal and none is known."""
        lengths = starts[chosen + 1] - starts[chosen]
        end, size = int(self._offsets[self.size]), self.size + len(chosen)
        ends = end + np.cumsum(lengths)
        self._bytes = _grown(self._bytes, int(ends[-1]) + 8)
        self._offsets = _grown(self._offsets, size + 1)
        self._keys = _grown(self._keys, size)
        source = np.repeat(starts[chosen] - (ends - lengths), lengths) + np.arange(end, ends[-1])
        self._bytes[end : ends[-1]] = data[source]
        self._offsets[self.size + 1 : size + 1] = ends
        self._keys[self.size : size] = keys[chosen]
        new = np.arange(self.size, size)
        self.size = size
        if 2 * size > len(self._slot_keys):
            capacity = len(_grown(self._slot_keys, 2 * size + 1))
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


def _make_keys(padded: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return uint64[words], never 0: equal words have equal keys, and equal keys below _LONG mean equal words."""
    lengths = np.diff(starts)
    exact = np.minimum(lengths, _EXACT_BYTES)
    chunks = _chunks(padded)
    keys = chunks[starts[:-1]]
    keys &= _MASKS.take(exact)
    keys |= _TAGS.take(exact)
    long = np.flatnonzero(lengths > _EXACT_BYTES)
    if len(long):
        keys[long] = _hash(padded, chunks, starts[long], lengths[long]) | _LONG
    return keys


def _hash(padded: np.ndarray, chunks: np.ndarray, heads: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each word, from its chunks of 8 bytes or, past _CHUNKED_BYTES, from BLAKE2."""
    hashes = lengths.astype(np.uint64)
    active = np.flatnonzero(lengths <= _CHUNKED_BYTES)
    for done in range(0, _CHUNKED_BYTES, 8):
        active = active[lengths[active] > done]
        if len(active) == 0:
            break
        chunk = chunks[heads[active] + done] & _MASKS[np.minimum(lengths[active] - done, 8)]
        mixed = (hashes[active] ^ chunk) * _GOLDEN
        hashes[active] = (mixed ^ (mixed >> np.uint64(29))) * _MIXER
    for index in np.flatnonzero(lengths > _CHUNKED_BYTES).tolist():
        word = padded[heads[index] : heads[index] + lengths[index]]
        hashes[index] = int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")
    return hashes ^ (hashes >> np.uint64(32))


def _chunks(data: np.ndarray) -> np.ndarray:
    """View bytes as overlapping little-endian numbers of 8 bytes: element i holds data[i : i + 8] (uint64)."""
    return np.ndarray(len(data) - 7, "<u8", data, strides=(1,))


def _first_of_each(keys: np.ndarray) -> np.ndarray:
    """Return the sorted indices of the first occurrence of each key."""
    order = np.argsort(keys, kind="stable")
    is_first = np.ones(len(keys), bool)
    is_first[1:] = np.diff(keys[order]) != 0
    return np.sort(order[is_first])


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    """Return `array`, or a copy at least twice as long that has room for `size` elements (zeros)."""
    if size <= len(array):
        return array
    grown = np.zeros(1 << (max(size, 2 * len(array)) - 1).bit_length(), array.dtype)
    grown[: len(array)] = array
    return grown
