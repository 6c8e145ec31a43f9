"""Many words at once, with a key for each, and what tells words with equal keys apart."""

import hashlib
from typing import NamedTuple

import numpy as np

__all__ = ["GOLDEN", "WordBatch", "equal_insides"]

# A word of at most 7 bytes is its own key: the length in the lowest byte, and the bytes from the top. A longer one gets
# a hash over a lowest byte that no length uses, and is compared byte by byte.
_EXACT_BYTES = 7
_LONG = np.uint64(0xFF)
_CHUNKED_BYTES = 64  # longer words are rare; they are hashed and compared one at a time
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xC2B2AE3D27D4EB4F)


class WordBatch(NamedTuple):
    """Words to look up."""

    padded: np.ndarray  # uint8: their bytes somewhere in it, and 8 more at its end
    starts: np.ndarray  # int64[words]
    lengths: np.ndarray  # int64[words]
    keys: np.ndarray  # uint64[words], never 0: equal for equal words; equal ones of short words mean equal words
    long: np.ndarray  # int64[long]: the words of 8 bytes and more, rising
    firsts: np.ndarray  # uint64[long]: their first 8 bytes
    lasts: np.ndarray  # uint64[long]: their last 8 bytes

    @classmethod
    def make(cls, data: np.ndarray, starts: np.ndarray) -> "WordBatch":
        """Return the words data[starts[i]:starts[i + 1]], which are not empty (uint8, int64[words + 1])."""
        padded = np.concatenate((data, np.zeros(8, np.uint8)))
        chunks = _chunks(padded)
        lengths = np.diff(starts)
        starts = starts[:-1]
        exact = np.minimum(lengths, _EXACT_BYTES).view(np.uint64)
        keys = chunks[starts]
        long = np.flatnonzero(lengths > _EXACT_BYTES)
        heads, sizes = starts[long], lengths[long]
        firsts, lasts = keys[long], chunks[heads + sizes - 8]
        keys <<= np.uint64(64) - (exact << np.uint64(3))
        keys |= exact
        keys[long] = _hash(padded, heads, sizes, firsts, lasts) | _LONG
        return cls(padded, starts, lengths, keys, long, firsts, lasts)

    def take(self, chosen: np.ndarray) -> "WordBatch":
        """Return some of the words (int64)."""
        starts, lengths = self.starts[chosen], self.lengths[chosen]
        long = np.flatnonzero(lengths > _EXACT_BYTES)
        chunks, heads = _chunks(self.padded), starts[long]
        firsts, lasts = chunks[heads], chunks[heads + lengths[long] - 8]
        return WordBatch(self.padded, starts, lengths, self.keys[chosen], long, firsts, lasts)

    def are_equal(self, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Return whether words ours[i] and theirs[i] (int64 both), whose keys are equal, are equal (bool)."""
        is_equal = self.lengths[ours] == self.lengths[theirs]
        asked = np.flatnonzero(is_equal & (ours != theirs) & (self.lengths[ours] > _EXACT_BYTES))
        heads, others, lengths = self.starts[ours[asked]], self.starts[theirs[asked]], self.lengths[ours[asked]]
        chunks = _chunks(self.padded)
        ends = lengths - 8
        is_same = (chunks[heads] == chunks[others]) & (chunks[heads + ends] == chunks[others + ends])
        active = np.flatnonzero(is_same & (lengths > 16))
        if len(active):
            is_same[active] = equal_insides(self.padded, heads[active], self.padded, others[active], lengths[active])
        is_equal[asked] = is_same
        return is_equal


def _hash(
    padded: np.ndarray, heads: np.ndarray, lengths: np.ndarray, firsts: np.ndarray, lasts: np.ndarray
) -> np.ndarray:
    """Return a 64-bit hash of each word of 8 bytes or more, from chunks or, past _CHUNKED_BYTES, from BLAKE2."""
    # The length by a factor: a word may well be longer by one and start with a byte that is less by one.
    hashes = _mix(_mix(lengths.view(np.uint64) * _MIXER ^ firsts) ^ lasts)
    chunks = _chunks(padded)
    active = np.flatnonzero((lengths > 16) & (lengths <= _CHUNKED_BYTES))
    for done in range(8, _CHUNKED_BYTES - 8, 8):
        active = active[lengths[active] > done + 8]
        if len(active) == 0:
            break
        hashes[active] = _mix(hashes[active] ^ chunks[heads[active] + done])
    for index in np.flatnonzero(lengths > _CHUNKED_BYTES).tolist():
        word = padded[heads[index] : heads[index] + lengths[index]]
        hashes[index] = int.from_bytes(hashlib.blake2b(word.tobytes(), digest_size=8).digest(), "little")
    return hashes ^ (hashes >> np.uint64(32))


def _mix(values: np.ndarray) -> np.ndarray:
    mixed = values * GOLDEN
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIXER
    return mixed


def equal_insides(
    ours: np.ndarray, heads: np.ndarray, theirs: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Return whether words of more than 16 bytes, whose first and last 8 are equal, are equal between (bool)."""
    is_equal = np.ones(len(heads), bool)
    our_chunks, their_chunks = _chunks(ours), _chunks(theirs)
    active = np.flatnonzero(lengths <= _CHUNKED_BYTES)
    for done in range(8, _CHUNKED_BYTES - 8, 8):
        active = active[lengths[active] > done + 8]
        if len(active) == 0:
            break
        differs = our_chunks[heads[active] + done] != their_chunks[starts[active] + done]
        is_equal[active[differs]] = False
    for index in np.flatnonzero(lengths > _CHUNKED_BYTES).tolist():
        head, start, length = heads[index], starts[index], lengths[index]
        is_equal[index] = np.array_equal(ours[head : head + length], theirs[start : start + length])
    return is_equal


def _chunks(data: np.ndarray) -> np.ndarray:
    """View bytes as overlapping little-endian numbers of 8 bytes: element i holds data[i : i + 8] (uint64)."""
    return np.lib.stride_tricks.as_strided(data[:8].view("<u8"), (len(data) - 7,), (1,))
