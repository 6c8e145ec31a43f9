"""All pairs met so far: their tokens, F, R, L, priorities and positions."""

import numpy as np

from tokenizer.merging_sources import Sources
from tokenizer.merging_text import Spots, Text
from tokenizer.priorities import Priority
from tokenizer.ragged import offsets_of

__all__ = ["PAIR", "Pairs"]

PAIR = np.dtype(
    [
        ("left", np.int32),
        ("right", np.int32),
        ("frequency", np.int64),  # F now; 0: merged, skipped or too long
        ("repositories", np.int64),  # R when last counted, or a bound from the parts
        ("languages", np.int64),  # L, likewise
        ("counted_frequency", np.int64),  # F when R and L were last counted (0: never); equal to F, R and L are exact
        ("priority", np.float64),  # from F, R and L above, so never less than the true one
        ("key", np.int64),  # the smaller is taken first among equal priorities
        ("start", np.int64),  # where its positions are, of which some may have passed to other pairs
        ("length", np.int64),
    ]
)


class Pairs:
    """A table of pairs that grows at its end; a pair never gains positions after it is added."""

    def __init__(self, text: Text, sources: Sources, priority: Priority) -> None:
        self.size = 0
        self._text = text
        self._sources = sources
        self._priority = priority
        self._rows = np.zeros(1 << 12, PAIR)
        self._positions = np.zeros(1 << 12, np.int32)
        self._num_positions = 0

    @property
    def rows(self) -> np.ndarray:
        """The pairs (PAIR[size]): a view."""
        return self._rows[: self.size]

    def add(self, rows: np.ndarray, positions: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Append pairs with tokens, R and L bounds and keys filled in, and their positions; returns their numbers.

        `positions` (int32) holds `lengths[i]` slots of pair i, pair after pair.
        """
        offsets = offsets_of(lengths)
        numbers = np.arange(self.size, self.size + len(rows))
        rows["start"], rows["length"] = self._num_positions + offsets[:-1], lengths
        rows["frequency"] = np.add.reduceat(self._text.weights(positions), offsets[:-1])
        rows["repositories"] = np.minimum(rows["repositories"], rows["frequency"])
        rows["priority"] = self.evaluate(rows)
        self._text.pairs[positions] = np.repeat(numbers, lengths)
        self._rows = _extended(self._rows, self.size, rows)
        self._positions = _extended(self._positions, self._num_positions, positions)
        self.size += len(rows)
        self._num_positions += len(positions)
        return numbers

    def evaluate(self, rows: np.ndarray) -> np.ndarray:
        """Return the priorities (float64) that F, R and L of these rows make."""
        return self._priority.evaluate(rows["frequency"], rows["repositories"], rows["languages"])

    def find(self, numbers: np.ndarray) -> Spots:
        """Return where these pairs are now."""
        rows = self._rows[numbers]
        ends = np.cumsum(rows["length"])
        places = np.repeat(rows["start"] - (ends - rows["length"]), rows["length"])
        places += np.arange(len(places))
        positions = self._positions[places]
        ranks = np.repeat(np.arange(len(numbers), dtype=np.int32), rows["length"])
        is_here = self._text.pairs[positions] == numbers[ranks]
        return Spots(positions[is_here], ranks[is_here])

    def count_sources(self, numbers: np.ndarray) -> None:
        """Make R and L of these pairs exact, and so their priorities."""
        spots = self.find(numbers)
        offsets = np.searchsorted(spots.ranks, np.arange(len(numbers) + 1))
        rows = self._rows[numbers]
        rows["repositories"], rows["languages"] = self._sources.count(self._text.words[spots.positions], offsets)
        rows["counted_frequency"] = rows["frequency"]
        rows["priority"] = self.evaluate(rows)
        self._rows[numbers] = rows

    def lower(self, numbers: np.ndarray, weights: np.ndarray) -> None:
        """Take `weights` off the frequencies of pairs (each may come many times)."""
        np.subtract.at(self._rows["frequency"], numbers, weights)
        self._rows["priority"][numbers] = self.evaluate(self._rows[numbers])

    def retire(self, numbers: np.ndarray) -> None:
        """Never offer these pairs again."""
        self._rows["frequency"][numbers] = 0
        self._rows["priority"][numbers] = 0.0


def _extended(array: np.ndarray, size: int, values: np.ndarray) -> np.ndarray:
    """Write `values` at `size` of `array`, or of a copy half as long again when they do not fit."""
    if size + len(values) > len(array):
        longer = np.zeros(max(size + len(values), len(array) * 3 // 2), array.dtype)
        longer[:size] = array[:size]
        array = longer
    array[size : size + len(values)] = values
    return array
