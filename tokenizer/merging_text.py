"""The distinct words as chains of tokens, and the positions of pairs in them."""

from typing import NamedTuple

import numpy as np

from tokenizer.counting import WordCounts

__all__ = ["Births", "Spots", "Text"]


class Spots(NamedTuple):
    """Positions of several pairs: `positions[j]` belongs to pair number `ranks[j]` of those asked for."""

    positions: np.ndarray  # int32: the slot of the left token
    ranks: np.ndarray  # int32, rising

    def keep(self, is_kept: np.ndarray) -> "Spots":
        """Leave out the ranks for which `is_kept` (bool, by rank) is False."""
        chosen = is_kept[self.ranks]
        return Spots(self.positions[chosen], self.ranks[chosen])


class Births(NamedTuple):
    """New pairs, one row an occurrence."""

    lefts: np.ndarray  # int32: token
    rights: np.ndarray  # int32: token
    ranks: np.ndarray  # int32: the merge that made it
    words: np.ndarray  # int32: where it is


class Text:
    """One slot a byte; a token lives in the slot of its first byte, and links skip the other slots.

    The slot after the last is a wall: the neighbour of every word's ends.
    """

    def __init__(self, counts: WordCounts) -> None:
        size = len(counts.data)
        lengths = np.diff(counts.offsets)
        self.counts = counts
        self.wall = size
        # (size + 1,) each: token, slot of the next and of the previous token, word, pair (-1: none) that starts here
        self.tokens = np.append(counts.data, 0).astype(np.int32)
        self.nexts = np.arange(1, size + 2, dtype=np.int32)
        self.previous = np.arange(-1, size, dtype=np.int32)
        self.words = np.append(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths), np.int32(-1))
        self.pairs = np.full(size + 1, -1, np.int32)
        self.nexts[counts.offsets[1:] - 1] = size
        self.previous[counts.offsets[:-1]] = size
        self._ranks = np.full(size + 1, -1, np.int32)  # scratch: all -1 between calls

    def weights(self, slots: np.ndarray) -> np.ndarray:
        """Return how often the words of these slots occur (int64)."""
        return self.counts.counts[self.words[slots]]

    def slots_with_pairs(self) -> np.ndarray:
        """Return the slots that have a token after them in their word (int32)."""
        return np.flatnonzero(self.nexts[:-1] != self.wall).astype(np.int32)

    def find_conflict(self, spots: Spots, num_ranks: int) -> int:
        """Return the first rank of which some position overlaps one of an earlier rank; `num_ranks` if none does."""
        self._ranks[spots.positions] = spots.ranks
        neighbours = self._ranks[self.nexts[spots.positions]]
        self._ranks[spots.positions] = -1
        overlaps = (neighbours >= 0) & (neighbours != spots.ranks)
        if not overlaps.any():
            return num_ranks
        return int(np.maximum(neighbours[overlaps], spots.ranks[overlaps]).min())

    def every_other(self, spots: Spots, is_equal: np.ndarray) -> Spots:
        """Leave out the positions that merging left to right passes over: every second of a run of equal tokens.

        `is_equal` (bool, by rank) says whose two tokens are the same.
        """
        chosen = np.flatnonzero(is_equal[spots.ranks])
        if len(chosen) == 0:
            return spots
        chosen = chosen[np.lexsort((spots.positions[chosen], spots.ranks[chosen]))]
        positions, ranks = spots.positions[chosen], spots.ranks[chosen]
        continues = np.zeros(len(chosen), bool)
        continues[1:] = (self.nexts[positions[:-1]] == positions[1:]) & (ranks[1:] == ranks[:-1])
        places = np.arange(len(chosen))
        places -= np.maximum.accumulate(np.where(continues, 0, places))
        is_kept = np.ones(len(spots.positions), bool)
        is_kept[chosen[places % 2 == 1]] = False
        return Spots(spots.positions[is_kept], spots.ranks[is_kept])

    def births(self, spots: Spots, tokens: np.ndarray) -> Births:
        """Return the pairs that come to be when `spots` are merged, rank by rank, at the moment they come to be.

        `tokens` (int32, by rank) are the new tokens. Nothing is changed.
        """
        lefts = spots.positions
        rights = self.nexts[lefts]
        before, after = self.previous[lefts], self.nexts[rights]
        self._ranks[lefts] = spots.ranks
        self._ranks[rights] = spots.ranks
        before_ranks, after_ranks = self._ranks[before], self._ranks[after]
        self._ranks[lefts] = -1
        self._ranks[rights] = -1
        own = tokens[spots.ranks]
        # A neighbour merged earlier, or in the same rank, is a new token by now; one merged later is not yet.
        is_merged = (before_ranks >= 0) & (before_ranks <= spots.ranks)
        before_tokens = np.where(is_merged, tokens[before_ranks], self.tokens[before])
        is_merged = (after_ranks >= 0) & (after_ranks < spots.ranks)
        after_tokens = np.where(is_merged, tokens[after_ranks], self.tokens[after])
        has_before = before != self.wall
        has_after = (after != self.wall) & (after_ranks != spots.ranks)  # else counted as its `before`
        return Births(
            lefts=np.concatenate((before_tokens[has_before], own[has_after])),
            rights=np.concatenate((own[has_before], after_tokens[has_after])),
            ranks=np.concatenate((spots.ranks[has_before], spots.ranks[has_after])),
            words=np.concatenate((self.words[before[has_before]], self.words[lefts[has_after]])),
        )

    def merge(self, spots: Spots, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Put tokens[rank] at each of `spots`.

        Returns the slots whose pairs are no more, the pairs they were (-1: none), and the slots that start new pairs.
        """
        lefts = spots.positions
        rights = self.nexts[lefts]
        before, after = self.previous[lefts], self.nexts[rights]
        self._ranks[rights] = 0
        outer = before[(before != self.wall) & (self._ranks[before] < 0)]
        self._ranks[rights] = -1
        ended = np.concatenate((lefts, rights, outer))
        ended_pairs = self.pairs[ended]
        self.pairs[ended] = -1
        self.tokens[lefts] = tokens[spots.ranks]
        self.nexts[lefts] = after
        self.previous[after] = lefts
        return ended, ended_pairs, np.concatenate((lefts[after != self.wall], outer))
