"""The distinct words as chains of tokens, and what merging changes in them."""

from typing import NamedTuple

import numpy as np

__all__ = ["Births", "Plan", "Spots", "Text"]


class Spots(NamedTuple):
    """Positions of several pairs: the ranks say whose, counted in a list of pairs that is best first."""

    lefts: np.ndarray  # int32: slots of the left tokens
    rights: np.ndarray  # int32: slots of the right tokens
    ranks: np.ndarray  # int32, rising

    def keep(self, is_kept: np.ndarray) -> "Spots":
        """Leave out positions (bool[positions])."""
        return Spots(self.lefts[is_kept], self.rights[is_kept], self.ranks[is_kept])


class Births(NamedTuple):
    """Occurrences of new pairs, each when its younger token is made."""

    lefts: np.ndarray  # int32: left token
    rights: np.ndarray  # int32: right token
    ranks: np.ndarray  # int32: the merge that makes the younger token
    slots: np.ndarray  # int32: slot of the left token
    is_passing: np.ndarray  # bool: a later merge of the batch ends it

    @property
    def codes(self) -> np.ndarray:
        """int64: left << 32 | right."""
        return self.lefts.astype(np.int64) << 32 | self.rights


class Plan(NamedTuple):
    """What merging some positions, rank by rank, will do."""

    spots: Spots
    outer: np.ndarray  # int32: slots before the positions, unless they are merged themselves
    after: np.ndarray  # int32: slots after the positions
    births: Births


class Text:
    """One slot a token at the start; a later token lives in the slot of its first part, and links skip the others.

    The slot after the last is a wall: the neighbour of every word's ends.
    """

    def __init__(self, tokens: np.ndarray, offsets: np.ndarray, counts: np.ndarray) -> None:
        """Take words tokens[offsets[w] : offsets[w + 1]], bytes or int32, that occur counts[w] (int64) times each."""
        size = len(tokens)
        lengths = np.diff(offsets)
        self.wall = size
        # (size + 1,) each: token, slots of the next and of the previous token, pair that starts here (-1: none), word,
        # and how often the word occurs
        self.tokens = np.append(tokens, 0).astype(np.int32)
        self.nexts = np.arange(1, size + 2, dtype=np.int32)
        self.previous = np.arange(-1, size, dtype=np.int32)
        self.pairs = np.full(size + 1, -1, np.int32)
        self.words = np.append(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths), np.int32(-1))
        self.weights = np.append(np.repeat(counts, lengths), 0)
        self.nexts[offsets[1:] - 1] = size
        self.previous[offsets[:-1]] = size
        self._ranks = np.full(size + 1, -1, np.int32)  # scratch: all -1 between calls

    def all_births(self) -> Births:
        """Return all pairs that there are before anything is merged."""
        slots = np.flatnonzero(self.nexts[:-1] != self.wall).astype(np.int32)
        zeros = np.zeros(len(slots), np.int32)
        return Births(self.tokens[slots], self.tokens[slots + 1], zeros, slots, zeros.astype(bool))

    def find_conflict(self, spots: Spots, num_ranks: int) -> int:
        """Return the first rank of which some position overlaps one of an earlier rank; `num_ranks` if none does."""
        self._ranks[spots.lefts] = spots.ranks
        neighbours = self._ranks[spots.rights]
        self._ranks[spots.lefts] = -1
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
        chosen = chosen[np.lexsort((spots.lefts[chosen], spots.ranks[chosen]))]
        run = spots.keep(chosen)
        continues = np.zeros(len(chosen), bool)
        continues[1:] = (run.rights[:-1] == run.lefts[1:]) & (run.ranks[:-1] == run.ranks[1:])
        places = np.arange(len(chosen))
        places -= np.maximum.accumulate(np.where(continues, 0, places))
        is_kept = np.ones(len(spots.lefts), bool)
        is_kept[chosen[places % 2 == 1]] = False
        return spots.keep(is_kept)

    def plan(self, spots: Spots, tokens: np.ndarray) -> Plan:
        """Return what putting tokens[rank] (int32) at every one of `spots` will change; nothing is changed yet."""
        lefts, rights, ranks = spots
        before, after = self.previous[lefts], self.nexts[rights]
        self._ranks[lefts] = ranks
        self._ranks[rights] = ranks
        before_ranks, after_ranks = self._ranks[before], self._ranks[after]
        self._ranks[lefts] = -1
        self._ranks[rights] = -1
        own = tokens[ranks]
        # A neighbour merged earlier, or in the same rank, is a new token by now; one merged later is not yet.
        is_token = (before_ranks >= 0) & (before_ranks <= ranks)
        left_tokens = np.where(is_token, tokens[before_ranks], self.tokens[before])
        left_slots = np.where(is_token, self.previous[before], before)
        is_token = (after_ranks >= 0) & (after_ranks < ranks)
        right_tokens = np.where(is_token, tokens[after_ranks], self.tokens[after])
        has_before = before != self.wall
        has_after = (after != self.wall) & (after_ranks != ranks)  # two of one rank: counted by the right one
        births = Births(
            lefts=np.concatenate((left_tokens[has_before], own[has_after])),
            rights=np.concatenate((own[has_before], right_tokens[has_after])),
            ranks=np.concatenate((ranks[has_before], ranks[has_after])),
            slots=np.concatenate((left_slots[has_before], lefts[has_after])),
            is_passing=np.concatenate(((before_ranks > ranks)[has_before], (after_ranks > ranks)[has_after])),
        )
        return Plan(spots, before[has_before & (before_ranks < 0)], after, births)

    def merge(self, plan: Plan, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Do what was planned, but for the numbers of the new pairs.

        Returns the pairs (int32) that lost an occurrence, as often as they did, and the weights (int64) of those
        occurrences. What the merged pairs themselves lost is left out, but for runs of equal tokens.
        """
        lefts, rights, ranks = plan.spots
        ended = np.concatenate((rights, plan.outer))
        pairs = self.pairs[ended]
        self.pairs[lefts] = -1
        self.pairs[rights] = -1
        self.tokens[lefts] = tokens[ranks]
        self.nexts[lefts] = plan.after
        self.previous[plan.after] = lefts
        is_pair = pairs >= 0
        return pairs[is_pair], self.weights[ended[is_pair]]
