"""Which tokens are made of which: the merges of a vocabulary as a graph."""

from typing import NamedTuple

import numpy as np

from tokenizer.ragged import offsets_of

__all__ = ["MergeGraph", "count_made", "make_graph"]

NUM_BYTES = 256


class MergeGraph(NamedTuple):
    """Tokens are counted as merges make them: bytes, then 256 + merge, whatever their ids."""

    merges: np.ndarray  # int64[2 merges]: the merges of which each token is a part, token after token
    offsets: np.ndarray  # int64[256 + merges + 1]: a token's are merges[offsets[token] : offsets[token + 1]]

    def is_leaf(self, token: int) -> bool:
        """Whether nothing is made of a token."""
        return bool(self.offsets[token] == self.offsets[token + 1])

    def made_of(self, token: int) -> list[int]:
        """Tokens that a merge makes of this one and another (or itself), in order; none for special tokens."""
        if token + 1 >= len(self.offsets):
            return []  # special tokens are counted after the last merge
        return (NUM_BYTES + np.unique(self.merges[self.offsets[token] : self.offsets[token + 1]])).tolist()

    def containing(self, token: int) -> list[int]:
        """Tokens that have this one anywhere in the tree of merges that makes them, in the order of merges."""
        found, waiting = set(), [token]
        while waiting:
            new = set(self.made_of(waiting.pop())) - found
            found |= new
            waiting += new
        return sorted(found)


def make_graph(pairs: np.ndarray) -> MergeGraph:
    """Make the graph of merges, int32[merges, 2] as `Tokenizer.pairs`."""
    parts = pairs.reshape(-1)
    order = np.argsort(parts, kind="stable")
    return MergeGraph(order // 2, offsets_of(np.bincount(parts, minlength=NUM_BYTES + len(pairs))))


def count_made(pairs: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Return how often each token was made when documents were encoded, int64[256 + merges].

    Args:
        pairs: int32[merges, 2].
        frequencies: int64[256 + merges], how often each token is there in the end.

    A token that was made stays, or ends in a token that has it in its tree.

    >>> count_made(np.array([[97, 98], [256, 256]]), np.array([0] * 256 + [3, 5])).tolist()[96:99]
    [0, 13, 13]
    """
    made = frequencies.tolist()
    parts = pairs.tolist()
    for merge in range(len(parts) - 1, -1, -1):
        for part in parts[merge]:
            made[part] += made[NUM_BYTES + merge]
    return np.array(made, np.int64)
