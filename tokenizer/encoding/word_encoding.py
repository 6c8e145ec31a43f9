"""Byte-pair encoding of many different words at once.

A word's encoding merges, again and again, its pair of lowest rank, the leftmost of several. Words are independent, so
one round makes one merge in every word. Words are columns of a matrix, so that a round finds the best pair of all
words by one minimum over rows, and all else it does is a few operations per word, however long the words are.

Words of about the same length share a matrix. Those longer than ``LONG_WORD`` bytes go another way (``long_words``).

BPE-dropout (Provilkov et al. 2020, Algorithm 1) leaves pairs out of a round at random.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from tokenizer.encoding.dropout import Dropout
from tokenizer.encoding.long_words import encode_long_words
from tokenizer.encoding.pair_ranks import NO_RANK, NO_SYMBOL, PairRanks
from tokenizer.ragged import offsets_of, take_rows

__all__ = ["Run", "encode_words"]

Run = Callable[..., Iterable[Any]]
"""As `map`: calls a function for every item, and gives the results in order."""

NUM_BYTES = 256
LONG_WORD = 255
# Words longer than the one before and at most this long share a matrix.
WIDTHS = (8, 16, 32, 64, LONG_WORD)
# A key is rank << 8 | row: the smallest is the best pair, the leftmost of several; from NO_KEY on there is no pair.
ROW_BITS = 8
ROW = np.int32(255)
NO_KEY = NO_RANK << ROW_BITS
WORDS_AT_ONCE = 1 << 14
FEW_WORDS = 1 << 10


def encode_words(
    data: np.ndarray, offsets: np.ndarray, ranks: PairRanks, dropout: Dropout | None = None, run: Run = map
) -> tuple[np.ndarray, np.ndarray]:
    """Encode words into token ids.

    Args:
        data: uint8, the bytes of all words.
        offsets: int64[words + 1], word i is ``data[offsets[i] : offsets[i + 1]]``, not empty.
        ranks: The merges; merge r makes token 256 + r.
        dropout: Leaves pairs out, but for words longer than LONG_WORD, whose rounds would take too long.
        run: `map`, or that of several threads.

    Returns:
        (ids, offsets): int32 token ids of all words, and int64[words + 1] where each word's begin.
    """
    lengths = np.diff(offsets)
    order, bounds = _group(lengths)
    byte_ranks = ranks.find_bytes(data)

    def encode(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if lengths[words[0]] > LONG_WORD:
            ids, id_offsets = encode_long_words(*take_rows(data, offsets, words), ranks)
            return ids, np.diff(id_offsets)
        matrix = _Matrix(data, byte_ranks, offsets[words], lengths[words], ranks, dropout)
        matrix.merge()
        return matrix.ids(), matrix.sizes()

    encoded = list(run(encode, (words for words in np.split(order, bounds) if len(words))))
    ids = np.concatenate([np.empty(0, np.int32), *(ids for ids, _ in encoded)])
    sizes = np.concatenate([np.empty(0, np.int64), *(sizes for _, sizes in encoded)])
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return take_rows(ids, offsets_of(sizes), places)


def _group(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the words in the order of their groups (int64[words]), and where groups end but the last."""
    widths = np.array(WIDTHS)
    if len(lengths) <= FEW_WORDS:  # rounds cost more than cells
        widths = widths[-1:]
    groups = np.searchsorted(widths, lengths)
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=len(widths) + 1))
    parts = [np.arange(first, last, WORDS_AT_ONCE) for first, last in pairwise([0, *ends.tolist()])]
    return order, np.concatenate(parts)[1:]


class _Matrix:
    """Words of similar length: symbol p of word w is in cell p * words + w; the last row stands beyond every word.

    A symbol is in the cell of its first byte. `_nexts` and `_previous` lead from row to row.
    """

    def __init__(
        self,
        data: np.ndarray,
        byte_ranks: np.ndarray,
        starts: np.ndarray,
        lengths: np.ndarray,
        ranks: PairRanks,
        dropout: Dropout | None,
    ) -> None:
        self._ranks = ranks
        self._num_words = len(starts)
        beyond = np.uint8(lengths.max())
        rows = np.arange(int(beyond) + 1, dtype=np.uint8)[:, None]
        is_inside, has_next = rows < lengths, rows < lengths - 1
        at = starts + rows  # (rows, words): the byte of each cell, or one of another word
        self._dropout = dropout and Dropout(dropout.probability, dropout.keys.take(at[:-1], mode="clip"))
        self._keys = byte_ranks.take(at, mode="clip")
        self._keys <<= ROW_BITS
        self._keys |= rows
        np.copyto(self._keys, NO_KEY, where=~has_next)
        self._symbols = data.take(at, mode="clip").astype(np.int32).reshape(-1)
        np.copyto(self._symbols, NO_SYMBOL, where=~is_inside.reshape(-1))
        self._nexts = np.where(has_next, rows + np.uint8(1), beyond).reshape(-1)
        self._previous = np.repeat(np.roll(rows, 1), len(starts))

    def merge(self) -> None:
        """Merge until no word has a pair that is merged, or with dropout none that is offered."""
        number = 0
        while True:
            keys = self._keys[:-1]
            best = (keys if self._dropout is None else self._dropout.drop(keys, number)).min(axis=0)
            words = np.flatnonzero(best < NO_KEY)
            if not len(words):
                return
            if self._dropout is not None:
                keys[:, best >= NO_KEY] = NO_KEY
            self._merge_best(best[words], words)
            number += 1

    def _merge_best(self, best: np.ndarray, words: np.ndarray) -> None:
        """Merge the pair of key best[i] (int32) in word words[i]."""
        rows = best & ROW
        lefts = self._cells(rows, words)
        rights = self._cells(self._nexts[lefts], words)
        afters, befores = self._nexts[rights], self._previous[lefts]
        after, before = self._cells(afters, words), self._cells(befores, words)
        tokens = (best >> ROW_BITS) + np.int32(NUM_BYTES)
        keys = self._keys.reshape(-1)
        keys[rights] = NO_KEY
        self._symbols[rights] = NO_SYMBOL
        self._symbols[lefts] = tokens
        self._nexts[lefts] = afters
        self._previous[after] = rows
        # The two new pairs: of the symbol before with the new token, and of the new token with the symbol after.
        symbols = self._symbols[np.concatenate((before, after))]
        pair_lefts = np.concatenate((symbols[: len(words)], tokens))
        pair_rights = np.concatenate((tokens, symbols[len(words) :]))
        ranks = self._ranks.find(pair_lefts, pair_rights)
        ranks <<= ROW_BITS
        keys[before] = ranks[: len(words)] | befores
        keys[lefts] = ranks[len(words) :] | rows

    def _cells(self, rows: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the cell (int64) of each of these rows in its word."""
        cells = np.multiply(rows, self._num_words, dtype=np.int64)
        cells += words
        return cells

    def ids(self) -> np.ndarray:
        """The symbols (int32) word after word."""
        symbols = self._symbols.reshape(-1, self._num_words).T.reshape(-1)
        return symbols[symbols != NO_SYMBOL]

    def sizes(self) -> np.ndarray:
        """How many symbols each word has (int64[words])."""
        return (self._symbols.reshape(-1, self._num_words) != NO_SYMBOL).sum(axis=0)
