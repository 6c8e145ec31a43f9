"""Texts to token ids through a memory of words: only words not met before are merged."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tokenizer.allocation import keep_freed_memory
from tokenizer.counting.words import WordTable
from tokenizer.encoding.dropout import make_dropout
from tokenizer.encoding.pair_ranks import PairRanks
from tokenizer.encoding.word_encoding import encode_words
from tokenizer.ragged import offsets_of, take_rows
from tokenizer.splitting.documents import split_documents

__all__ = ["Encoder"]

# Words are looked up in blocks that stay in the second-level cache, and new ones are learnt in larger groups: learning
# costs by rounds as much as by words.
BLOCK_CHARACTERS = 250_000
GROUP_CHARACTERS = 4_000_000
MEMORY_BYTES = 64 << 20


class Encoder:
    """Encodes batches of texts. Safe among threads: each remembers words of its own, up to ``MEMORY_BYTES`` of them."""

    def __init__(self, pairs: np.ndarray, pattern: str, dtype: np.dtype) -> None:
        keep_freed_memory()
        self._ranks = PairRanks(pairs)
        self._pattern = pattern
        self._dtype = dtype
        self._idle: list[_Memory] = []  # memories that no thread is using

    def encode(self, texts: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Encode into (ids, offsets int64[texts + 1]); raises TokenizerError for a lone surrogate."""
        groups = _blocks(texts, GROUP_CHARACTERS)
        if threads == 1:
            return self._join(map(self._encode_group, groups))
        with ThreadPoolExecutor(threads) as pool:
            return self._join(pool.map(self._encode_group, groups))

    def encode_with_dropout(self, texts: Sequence[str], probability: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Encode with BPE-dropout, every word anew: chances come from (seed, number of the text, byte in the text)."""
        return self._join(self._drop(texts, probability, seed))

    def _drop(self, texts: Sequence[str], probability: float, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        number = 0
        for group in _blocks(texts, GROUP_CHARACTERS):
            words = split_documents(group, self._pattern)
            dropout = make_dropout(probability, seed, words.starts[words.document_words], number)
            ids, offsets = encode_words(words.data, words.starts, self._ranks, dropout)
            yield ids.astype(self._dtype), offsets[words.document_words]
            number += len(group)

    def _encode_group(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        try:
            memory = self._idle.pop()
        except IndexError:  # the first time, or more threads than ever before
            memory = _Memory(self._ranks, self._pattern, self._dtype)
        result = memory.encode(texts)
        if memory.num_bytes <= MEMORY_BYTES:
            self._idle.append(memory)
        return result

    def _join(self, parts: Iterator[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        ids, lengths = [np.empty(0, self._dtype)], [np.empty(0, np.int64)]
        for part_ids, offsets in parts:
            ids.append(part_ids)
            lengths.append(np.diff(offsets))
        return np.concatenate(ids), offsets_of(np.concatenate(lengths))


class _Memory:
    """Words met so far, and their ids: those of word w are ids[offsets[w] : offsets[w + 1]]."""

    def __init__(self, ranks: PairRanks, pattern: str, dtype: np.dtype) -> None:
        self._ranks = ranks
        self._pattern = pattern
        self._table = WordTable()
        self._ids = _Growing(dtype)
        self._offsets = _Growing(np.dtype(np.int64))
        self._offsets.append(np.zeros(1, np.int64))

    @property
    def num_bytes(self) -> int:
        """Of all words."""
        return self._table.data.size

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode into (ids, offsets int64[texts + 1])."""
        numbers, num_words = [], []
        for block in _blocks(texts, BLOCK_CHARACTERS):
            words = split_documents(block, self._pattern)
            numbers.append(self._table.identify(words.data, words.starts))
            num_words.append(np.diff(words.document_words))
        self._learn()
        ids, offsets = take_rows(self._ids.values, self._offsets.values, np.concatenate(numbers))
        return ids, offsets[offsets_of(np.concatenate(num_words))]

    def _learn(self) -> None:
        """Encode the words that the table has met since the last time."""
        known = self._offsets.values.size - 1
        if known == self._table.size:
            return
        offsets = self._table.offsets[known:]
        ids, id_offsets = encode_words(self._table.data[offsets[0] :], offsets - offsets[0], self._ranks)
        self._offsets.append(id_offsets[1:] + self._ids.values.size)
        self._ids.append(ids.astype(self._ids.values.dtype))


class _Growing:
    """An array that is appended to, in memory that doubles."""

    def __init__(self, dtype: np.dtype) -> None:
        self._memory = np.empty(1024, dtype)
        self._size = 0

    @property
    def values(self) -> np.ndarray:
        return self._memory[: self._size]

    def append(self, values: np.ndarray) -> None:
        size = self._size + values.size
        if size > self._memory.size:
            memory = np.empty(max(size, 2 * self._memory.size), self._memory.dtype)
            memory[: self._size] = self.values
            self._memory = memory
        self._memory[self._size : size] = values
        self._size = size


def _blocks(texts: Sequence[str], num_characters: int) -> Iterator[Sequence[str]]:
    """Yield the texts in order, in parts of at least `num_characters` (the last may have fewer)."""
    first, size = 0, 0
    for last, text in enumerate(texts, 1):
        size += len(text)
        if size >= num_characters:
            yield texts[first:last]
            first, size = last, 0
    if first < len(texts):
        yield texts[first:]
