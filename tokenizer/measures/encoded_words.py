"""The distinct words of documents, encoded: what a vocabulary makes of a corpus, in memory of its distinct words."""

from typing import NamedTuple

import numpy as np

from tokenizer.counting.counts import WordCounts
from tokenizer.encoding.pair_ranks import PairRanks
from tokenizer.encoding.word_encoding import encode_words
from tokenizer.errors import TokenizerError
from tokenizer.ragged import take_rows

__all__ = ["EncodedWords", "check_text", "encode_counts"]

NUM_BYTES = 256


class EncodedWords(NamedTuple):
    """Words in any order; tokens are counted as merges make them: bytes, then 256 + merge, whatever their ids."""

    tokens: np.ndarray  # int32[tokens]
    offsets: np.ndarray  # int64[words + 1]: word i has tokens[offsets[i] : offsets[i + 1]]
    words: np.ndarray  # int64[words]: their numbers in the WordCounts
    counts: np.ndarray  # int64[words]: how often each occurs

    @property
    def num_tokens(self) -> int:
        """Tokens of all documents."""
        return int(np.diff(self.offsets) @ self.counts)

    def frequencies(self, num_tokens: int) -> np.ndarray:
        """How often each of the tokens 0 to num_tokens - 1 occurs in all documents, int64[num_tokens]."""
        frequencies = np.zeros(num_tokens, np.int64)
        np.add.at(frequencies, self.tokens, np.repeat(self.counts, np.diff(self.offsets)))
        return frequencies

    def hold(self, is_wanted: np.ndarray) -> np.ndarray:
        """Which words have a token that is wanted; bool[tokens of the vocabulary] to bool[words]."""
        found = np.concatenate(([0], np.cumsum(is_wanted[self.tokens])))
        return found[self.offsets[1:]] > found[self.offsets[:-1]]

    def take(self, rows: np.ndarray) -> "EncodedWords":
        """Some of the words; rows: int64[n], counted here."""
        return EncodedWords(*take_rows(self.tokens, self.offsets, rows), self.words[rows], self.counts[rows])


def encode_counts(counts: WordCounts, pairs: np.ndarray, words: np.ndarray | None = None) -> EncodedWords:
    """Encode the distinct words of documents.

    Args:
        counts: The words (`count_words`), split by the tokenizer's pattern.
        pairs: int32[merges, 2], as `Tokenizer.pairs`.
        words: int64[n], which of them; all without.
    """
    numbers = np.arange(len(counts.counts)) if words is None else words
    data, offsets = take_rows(counts.data, counts.offsets, numbers)
    return EncodedWords(*encode_words(data, offsets, PairRanks(pairs)), numbers, counts.counts[numbers])


def check_text(counts: WordCounts) -> None:
    """Raise TokenizerError for documents without a word: their paths or filters are hardly what was meant."""
    if not len(counts.counts):
        raise TokenizerError("documents must hold some text to measure, got none; see their paths and languages")
