"""All pairs met so far: their tokens, F, R, L, priorities and positions."""

from typing import NamedTuple

import numpy as np

from tokenizer.merging.priorities import Priority
from tokenizer.merging.sources import Sources
from tokenizer.merging.text import Spots, Text
from tokenizer.merging.ties import Ties, first_slots
from tokenizer.ragged import offsets_of

__all__ = ["PairRows", "Pairs"]


class PairRows(NamedTuple):
    """Some pairs, one a row."""

    lefts: np.ndarray  # int32: left token
    rights: np.ndarray  # int32: right token
    keys: np.ndarray  # int64: of equal priorities the smaller key is first; ties "first": the true key, or less
    frequencies: np.ndarray  # int64; 0: merged, skipped or too long
    repositories: np.ndarray  # int64: R, or more
    languages: np.ndarray  # int64: L, or more
    priorities: np.ndarray  # float64: from F, R and L as they are here

    def take(self, rows: np.ndarray) -> "PairRows":
        """Return some of the rows (int64 numbers, or bool[rows])."""
        return PairRows(*(column[rows] for column in self))


class Pairs:
    """A table of pairs that grows at its end; a pair never gains positions after it is added.

    R and L are bounds, from the parts of the pair or from an earlier count, unless they were counted at the F of now.
    So are keys that can change: they only rise, and only when F falls.
    """

    def __init__(self, text: Text, sources: Sources, priority: Priority, ties: Ties) -> None:
        self._text = text
        self._sources = sources
        self._priority = priority
        self._ties = ties
        self._lefts = _Column(np.int32)
        self._rights = _Column(np.int32)
        self._keys = _Column(np.int64)
        self._frequencies = _Column(np.int64)
        self._repositories = _Column(np.int64)
        self._languages = _Column(np.int64)
        self._priorities = _Column(np.float64)
        self._counted = _Column(np.int64)  # F when R, L and key were found; 0: never
        self._starts = _Column(np.int64)  # of a pair's positions, of which some may have passed to other pairs
        self._lengths = _Column(np.int64)
        self._positions = _Column(np.int32)

    @property
    def keys(self) -> np.ndarray:
        """int64[pairs]."""
        return self._keys.values

    @property
    def priorities(self) -> np.ndarray:
        """float64[pairs]: never less than the true ones."""
        return self._priorities.values

    def take(self, numbers: np.ndarray) -> PairRows:
        """Return what is known of these pairs now."""
        columns = (self._lefts, self._rights, self._keys, self._frequencies, self._repositories, self._languages)
        return PairRows(*(column.values[numbers] for column in (*columns, self._priorities)))

    def is_exact(self, numbers: np.ndarray) -> np.ndarray:
        """Whether R, L and keys of these pairs are those of now, not bounds."""
        return self._counted.values[numbers] == self._frequencies.values[numbers]

    def add(self, rows: PairRows, positions: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Append pairs and return their numbers; `positions` (int32) holds lengths[i] slots of row i, row after row."""
        first = self._lefts.size
        numbers = np.arange(first, first + len(lengths))
        self._text.pairs[positions] = np.repeat(numbers.astype(np.int32), lengths)
        self._lefts.extend(rows.lefts)
        self._rights.extend(rows.rights)
        self._keys.extend(rows.keys)
        self._frequencies.extend(rows.frequencies)
        self._repositories.extend(rows.repositories)
        self._languages.extend(rows.languages)
        self._priorities.extend(rows.priorities)
        self._counted.extend(np.zeros(len(numbers), np.int64))
        self._starts.extend(self._positions.size + offsets_of(lengths)[:-1])
        self._lengths.extend(lengths)
        self._positions.extend(positions)
        return numbers

    def find(self, numbers: np.ndarray) -> Spots:
        """Return where these pairs are now."""
        lengths = self._lengths.values[numbers]
        offsets = offsets_of(lengths)
        places = np.repeat(self._starts.values[numbers] - offsets[:-1], lengths)
        places += np.arange(offsets[-1])
        lefts = self._positions.values[places]
        ranks = np.repeat(np.arange(len(numbers), dtype=np.int32), lengths)
        is_here = self._text.pairs[lefts] == np.repeat(numbers, lengths)
        lefts = lefts[is_here]
        return Spots(lefts, self._text.nexts[lefts], ranks[is_here])

    def make_exact(self, numbers: np.ndarray, spots: Spots) -> None:
        """Find R, L and keys of these pairs, which are at `spots`, and so their priorities."""
        offsets = np.searchsorted(spots.ranks, np.arange(len(numbers) + 1))
        repositories, languages = self._sources.count(self._text.words[spots.lefts], offsets)
        self._repositories.values[numbers] = repositories
        self._languages.values[numbers] = languages
        if self._ties.is_first:
            self._keys.values[numbers] = first_slots(spots.lefts, offsets[:-1])
        self._counted.values[numbers] = self._frequencies.values[numbers]
        self._evaluate(numbers)

    def lower(self, numbers: np.ndarray, weights: np.ndarray) -> None:
        """Take weights off the frequencies of pairs; a pair may come many times."""
        np.subtract.at(self._frequencies.values, numbers, weights)
        self._evaluate(numbers)

    def retire(self, numbers: np.ndarray) -> None:
        """Never offer these pairs again."""
        self._frequencies.values[numbers] = 0
        self._priorities.values[numbers] = 0.0

    def _evaluate(self, numbers: np.ndarray) -> None:
        self._priorities.values[numbers] = self._priority.evaluate(
            self._frequencies.values[numbers], self._repositories.values[numbers], self._languages.values[numbers]
        )


class _Column:
    """An array that grows at its end."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self._array = np.zeros(1 << 10, dtype)
        self.size = 0

    @property
    def values(self) -> np.ndarray:
        """What it holds now: a view."""
        return self._array[: self.size]

    def extend(self, values: np.ndarray) -> None:
        """Append values."""
        size = self.size + len(values)
        if size > len(self._array):
            longer = np.zeros(max(size, len(self._array) * 3 // 2), self._array.dtype)
            longer[: self.size] = self.values
            self._array = longer
        self._array[self.size : size] = values
        self.size = size
