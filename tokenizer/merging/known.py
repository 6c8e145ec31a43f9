"""Where training goes on from merges that are known already."""

import numpy as np

from tokenizer.counting.counts import WordCounts
from tokenizer.encoding.pair_ranks import PairRanks
from tokenizer.encoding.word_encoding import encode_words
from tokenizer.merging.text import Text
from tokenizer.ragged import offsets_of

__all__ = ["find_cut_tokens", "known_lengths", "make_text"]

NUM_BYTES = 256


def make_text(counts: WordCounts, known_pairs: np.ndarray) -> Text:
    """Return the words as the known merges (int32[known, 2]) encode them; without any, as bytes."""
    if len(known_pairs) == 0:
        return Text(counts.data, counts.offsets, counts.counts)
    tokens, offsets = encode_words(counts.data, counts.offsets, PairRanks(known_pairs))
    return Text(tokens, offsets, counts.counts)


def known_lengths(known_pairs: np.ndarray) -> list[int]:
    """Return the length in bytes of every token, the byte tokens first.

    >>> known_lengths(np.array([[97, 98], [256, 99]]))[255:]
    [1, 2, 3]
    """
    lengths = [1] * NUM_BYTES
    for left, right in known_pairs.tolist():
        lengths.append(lengths[left] + lengths[right])
    return lengths


def find_cut_tokens(known_pairs: np.ndarray) -> np.ndarray:
    """Return the tokens (int64, rising) that their merges never make from their own bytes alone.

    >>> find_cut_tokens(np.array([[97, 98], [98, 99], [97, 257]]))  # abc becomes ab, c
    array([258])
    """
    tokens = [bytes([byte]) for byte in range(NUM_BYTES)]
    for left, right in known_pairs.tolist():
        tokens.append(tokens[left] + tokens[right])
    offsets = offsets_of(np.array(known_lengths(known_pairs)))
    _, encoded = encode_words(np.frombuffer(b"".join(tokens), np.uint8), offsets, PairRanks(known_pairs))
    return np.flatnonzero(np.diff(encoded) > 1)
