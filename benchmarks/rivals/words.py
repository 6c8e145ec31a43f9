"""Texts as words in the letters of the byte alphabet, and encoding word by word."""

from collections.abc import Callable, Sequence

import numpy as np

from tokenizer.merging.ties import byte_alphabet
from tokenizer.ragged import offsets_of
from tokenizer.splitting.documents import split_documents

__all__ = ["encode_by_words", "spell_words"]


def spell_words(data: np.ndarray, offsets: np.ndarray) -> list[str]:
    """Spell words, ``data[offsets[i] : offsets[i + 1]]`` (uint8), in the letters that stand for their bytes."""
    letters = data.tobytes().decode("latin-1").translate(dict(enumerate(byte_alphabet())))
    return [letters[start:end] for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def encode_by_words(
    texts: Sequence[str], pattern: str, encode_word: Callable[[str], list[int]], known: dict[str, list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Encode into (ids int64[tokens], offsets int64[texts + 1]); every distinct word is encoded once, into `known`."""
    words = split_documents(texts, pattern)
    spelled = spell_words(words.data, words.starts)
    for word in set(spelled) - known.keys():
        known[word] = encode_word(word)
    rows = [known[word] for word in spelled]
    ids = np.fromiter((number for row in rows for number in row), np.int64)
    return ids, offsets_of(np.array([len(row) for row in rows], np.int64))[words.document_words]
