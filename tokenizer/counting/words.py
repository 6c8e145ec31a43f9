"""A table of distinct words: arrays of bytes in, word numbers out, many at once."""

from typing import NamedTuple

import numpy as np

from tokenizer.counting.word_batches import GOLDEN, WordBatch, equal_insides
from tokenizer.ragged import offsets_of

__all__ = ["WordTable"]

_SLOTS_PER_WORD = 4  # at least


class WordTable:
    """Numbers distinct words 0, 1, ... in the order of their first occurrence.

    Open addressing: a slot holds a key (0: it is free) and a word. Equality is decided on the bytes. One thread at a
    time may add words, while any number of others `find`: they miss at most the newest.
    """

    def __init__(self) -> None:
        self.size = 0
        self._bytes = np.zeros(1 << 12, np.uint8)
        self._offsets = np.zeros(1 << 10, np.int64)
        self._keys = np.zeros(1 << 10, np.uint64)  # by word
        # by word, of long ones: the first 8 bytes, the last 8, the length
        self._ends = np.zeros((1 << 10, 3), np.uint64)
        self._slots = _Slots.make(1 << 14)
        self._num_placed = 0  # words that have a slot

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
        return self.add(WordBatch.make(data, starts))

    def add(self, batch: WordBatch) -> np.ndarray:
        """Return the number of each word (int64[words]); new words are added."""
        self._place_new()  # not sooner: the last that are added, the most of all when tables are joined, need no slots
        words = self.find(batch).astype(np.int64)
        unknown = np.flatnonzero(words < 0)
        if len(unknown):
            new = batch.take(unknown)
            firsts = _find_firsts(new)
            is_first = firsts == np.arange(len(firsts))
            words[unknown] = self.size + (np.cumsum(is_first) - 1)[firsts]
            self._append(new.take(np.flatnonzero(is_first)))
        return words

    def find(self, batch: WordBatch) -> np.ndarray:
        """Return the number of each word (int32[words]), -1 for those that are unknown."""
        slots = self._slots
        at = slots.first(batch.keys)
        keys, found = slots.keys.take(at), slots.words.take(at)
        is_right = keys == batch.keys
        self._reject(is_right, batch, found)
        found[~is_right] = -1
        pending = np.flatnonzero((found < 0) & (keys != 0))
        batch, at = batch.take(pending), at[pending]
        while len(pending):
            at = (at + 1) & (len(slots.keys) - 1)
            keys, candidates = slots.keys[at], slots.words[at]
            is_right = keys == batch.keys
            self._reject(is_right, batch, candidates)
            found[pending[is_right]] = candidates[is_right]
            goes_on = np.flatnonzero(~is_right & (keys != 0))
            batch, pending, at = batch.take(goes_on), pending[goes_on], at[goes_on]
        return found

    def _reject(self, is_right: np.ndarray, batch: WordBatch, words: np.ndarray) -> None:
        """Clear `is_right` where a long word is not, byte by byte, the word whose number is given."""
        asked = np.flatnonzero(is_right[batch.long])
        suspects = batch.long[asked]
        heads, lengths, words = batch.starts[suspects], batch.lengths[suspects], words[suspects]
        ends = self._ends.take(words, axis=0)
        is_equal = ends[:, 0] == batch.firsts[asked]
        is_equal &= ends[:, 1] == batch.lasts[asked]
        is_equal &= ends[:, 2] == lengths.view(np.uint64)
        active = np.flatnonzero(is_equal & (lengths > 16))
        if len(active):
            is_equal[active] = equal_insides(
                batch.padded, heads[active], self._bytes, self._offsets[words[active]], lengths[active]
            )
        is_right[suspects] = is_equal

    def _append(self, batch: WordBatch) -> None:
        """Add words, of which no two are equal and none is known."""
        offsets = offsets_of(batch.lengths)
        end, size = int(self._offsets[self.size]), self.size + len(batch.keys)
        self._bytes = _grown(self._bytes, end + int(offsets[-1]) + 8)
        self._offsets = _grown(self._offsets, size + 1)
        self._keys, self._ends = _grown(self._keys, size), _grown(self._ends, size)
        source = np.repeat(batch.starts - offsets[:-1], batch.lengths) + np.arange(offsets[-1])
        self._bytes[end : end + len(source)] = batch.padded[source]
        self._offsets[self.size + 1 : size + 1] = end + offsets[1:]
        self._keys[self.size : size] = batch.keys
        long = batch.long + self.size
        self._ends[long, 0], self._ends[long, 1] = batch.firsts, batch.lasts
        self._ends[long, 2] = batch.lengths[batch.long]
        self.size = size

    def _place_new(self) -> None:
        """Put words that have none yet into slots."""
        slots, first = self._slots, self._num_placed
        if _SLOTS_PER_WORD * self.size > len(slots.keys):
            slots, first = _Slots.make(1 << (2 * _SLOTS_PER_WORD * self.size - 1).bit_length()), 0
        slots.place(np.arange(first, self.size), self._keys[first : self.size])
        self._slots, self._num_placed = slots, self.size


class _Slots(NamedTuple):
    """A table of words by key: a word is in the first slot of its key, or in one of those that follow."""

    keys: np.ndarray  # uint64[a power of two]
    words: np.ndarray  # int32, as many

    @classmethod
    def make(cls, capacity: int) -> "_Slots":
        return cls(np.zeros(capacity, np.uint64), np.zeros(capacity, np.int32))

    def first(self, keys: np.ndarray) -> np.ndarray:
        """Return the first slot (int64) of each key."""
        shift = np.uint64(65 - len(self.keys).bit_length())
        return ((keys * GOLDEN) >> shift).view(np.int64)

    def place(self, words: np.ndarray, keys: np.ndarray) -> None:
        """Put words into free slots; of several that want one slot the first gets it and the others move on.

        The key comes last: who sees it sees its word.
        """
        at = self.first(keys)
        while len(words):
            free = np.flatnonzero(self.keys[at] == 0)
            self.words[at[free][::-1]] = words[free][::-1]
            placed = free[self.words[at[free]] == words[free]]
            self.keys[at[placed]] = keys[placed]
            waits = np.ones(len(words), bool)
            waits[placed] = False
            words, keys, at = words[waits], keys[waits], (at[waits] + 1) & (len(self.keys) - 1)


def _find_firsts(batch: WordBatch) -> np.ndarray:
    """Return for each word the place of the first that equals it (int64[words])."""
    firsts = np.arange(len(batch.keys))
    pending = firsts
    # One round is enough, but for words that have the key of another and differ from it.
    while len(pending):
        candidates = pending[_first_of_key(batch.keys[pending])]
        is_right = batch.are_equal(pending, candidates)
        firsts[pending[is_right]] = candidates[is_right]
        pending = pending[~is_right]
    return firsts


def _first_of_key(keys: np.ndarray) -> np.ndarray:
    """Return for each key the place where it is first (int64[keys]).

    >>> _first_of_key(np.array([7, 5, 7]))
    array([0, 1, 0])
    """
    order = np.argsort(keys)
    is_start = np.ones(len(keys), bool)
    is_start[1:] = np.diff(keys[order]) != 0
    firsts = np.empty_like(order)
    firsts[order] = np.minimum.reduceat(order, np.flatnonzero(is_start))[np.cumsum(is_start) - 1]
    return firsts


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    """Return `array`, or a copy at least twice as long that has room for `size` elements (zeros)."""
    if size <= len(array):
        return array
    grown = np.zeros((1 << (max(size, 2 * len(array)) - 1).bit_length(), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
