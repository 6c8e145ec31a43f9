"""Which of equally good pairs is merged: the one of the smallest key."""

import numpy as np

from tokenizer.errors import TokenizerError

__all__ = ["TIES", "Ties", "byte_alphabet"]

TIES = ("ids", "hf", "first")


class Ties:
    """The keys of pairs by one of TIES.

    - ids: the smaller (left id, right id), as in rustbpe.
    - hf: the same, but bytes are ordered as the letters that Hugging Face writes for them, as in `tokenizers`.
    - first: the pair that occurs first in the corpus as it is merged so far, as in minbpe. Its key is a slot of `Text`,
      whose words are in the order of their first occurrence, and rises when the pair loses its first occurrence.

    Raises TokenizerError for another name.
    """

    def __init__(self, name: str) -> None:
        if name not in TIES:
            raise TokenizerError(f"ties must be one of {', '.join(TIES)}, got {name!r}")
        self.is_first = name == "first"
        # byte_order: (256,), the place of each byte; later tokens are ordered by their ids in every rule
        self._byte_order = np.argsort(np.argsort(byte_alphabet())) if name == "hf" else np.arange(256)

    def keys(self, lefts: np.ndarray, rights: np.ndarray, slots: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return the keys (int64) of pairs; pair p is at slots[starts[p] : starts[p + 1]], p the last: to the end."""
        if self.is_first:
            return first_slots(slots, starts)
        return self._order(lefts) << 32 | self._order(rights)

    def _order(self, tokens: np.ndarray) -> np.ndarray:
        return np.where(tokens < 256, self._byte_order[np.minimum(tokens, 255)], tokens)


def first_slots(slots: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the smallest slot (int64) of each group slots[starts[g] : starts[g + 1]]; groups are not empty."""
    return np.minimum.reduceat(slots, starts).astype(np.int64) if len(starts) else np.zeros(0, np.int64)


def byte_alphabet() -> list[str]:
    """Hugging Face's printable character for each byte: itself where it shows, else U+0100 and on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    characters = {byte: chr(byte) for byte in shown} | {byte: chr(0x100 + n) for n, byte in enumerate(hidden)}
    return [characters[byte] for byte in range(256)]
