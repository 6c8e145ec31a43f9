"""How many repositories and languages some words are in, together."""

import numpy as np

from tokenizer.counting.counts import WordCounts
from tokenizer.ragged import take_rows

__all__ = ["Sources"]

_SCRATCH_CELLS = 1 << 22


class Sources:
    """Counts the distinct sources of groups of words."""

    def __init__(self, counts: WordCounts) -> None:
        self._counts = counts
        self.num_repositories = len(counts.repository_names)
        self.num_languages = len(counts.language_names)

    def count(self, words: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return R and L (int64 each) of every group words[offsets[g]:offsets[g + 1]]; groups are not empty."""
        languages = np.bitwise_or.reduceat(self._counts.languages[words], offsets[:-1], axis=0)
        num_languages = np.bitwise_count(languages).sum(axis=1, dtype=np.int64)
        at_once = max(1, _SCRATCH_CELLS // self.num_repositories)
        parts = [
            self._count_repositories(words, offsets[first : first + at_once + 1])
            for first in range(0, len(offsets) - 1, at_once)
        ]
        return np.concatenate(parts), num_languages

    def _count_repositories(self, words: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        counts = self._counts
        words = words[offsets[0] : offsets[-1]]
        repositories, rows = take_rows(counts.repositories, counts.repository_offsets, words)
        lengths = np.diff(rows[offsets - offsets[0]])
        groups = np.repeat(np.arange(len(lengths)) * self.num_repositories, lengths)
        is_in = np.zeros((len(lengths), self.num_repositories), bool)
        is_in.reshape(-1)[groups + repositories] = True
        return is_in.sum(axis=1)
