"""BPE-dropout: pairs are left out of rounds of merging at random, so that a word comes in many pieces.

Provilkov et al. 2020, Algorithm 1: a round offers each pair that could be merged with probability 1 - p, makes the best
merge of those offered, and a word ends with the round that offers none. What is drawn is a function of the seed and the
place in the texts alone.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Dropout", "make_dropout"]

LEFT_OUT = np.int32(np.iinfo(np.int32).max)
"""Key of a pair that a round leaves out: after every other."""


class Dropout(NamedTuple):
    """Chances of pairs: a hash of the left symbol's key and of the round decides whether the pair is left out."""

    probability: float
    keys: np.ndarray  # uint64[...], each that of the symbol's first byte

    def drop(self, pair_keys: np.ndarray, number: int) -> np.ndarray:
        """Return the keys (int32, of the shape of `keys`) with LEFT_OUT at the pairs that round `number` leaves out."""
        hashes = _mix(self.keys + np.uint64(number))
        return np.where((hashes >> np.uint64(11)) * 2.0**-53 < self.probability, LEFT_OUT, pair_keys)


def make_dropout(probability: float, seed: int, starts: np.ndarray, first: int) -> Dropout:
    """Return the chances of the bytes of texts first, first + 1, ... that begin at starts[:-1] (int64[texts + 1])."""
    sizes = np.diff(starts)
    of_seed = _mix(np.array([seed % 2**64], np.uint64))
    of_texts = _mix(np.arange(first, first + len(sizes), dtype=np.uint64) + of_seed)
    places = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
    return Dropout(probability, _mix(places.view(np.uint64)) ^ np.repeat(of_texts, sizes))


def _mix(values: np.ndarray) -> np.ndarray:
    """Hash numbers (uint64) to numbers that look random: the finaliser of splitmix64, after its step."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
