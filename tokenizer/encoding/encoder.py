"""Texts to token ids through a memory of words: only words not met before are merged."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tokenizer.allocation import keep_freed_memory
from tokenizer.encoding.dropout import make_dropout
from tokenizer.encoding.pair_ranks import PairRanks
from tokenizer.encoding.word_encoding import Run, encode_words
from tokenizer.encoding.word_memory import WordMemory
from tokenizer.ragged import offsets_of
from tokenizer.splitting.documents import split_documents

__all__ = ["Encoder"]

# Words are looked up in blocks, since large arrays leave the cache; small ones make threads wait for each other. New
# ones are learnt in groups (which take 4 bytes a word): learning costs by rounds as much as by words.
BLOCK_CHARACTERS = 1_000_000
GROUP_CHARACTERS = 32_000_000
DROPOUT_CHARACTERS = 4_000_000
MEMORY_BYTES = 64 << 20


class Encoder:
    """Encodes batches of texts. Its threads share a memory of about ``MEMORY_BYTES`` of words at most."""

    def __init__(self, pairs: np.ndarray, pattern: str, dtype: np.dtype) -> None:
        keep_freed_memory()
        self._ranks = PairRanks(pairs)
        self._pattern = pattern
        self._dtype = dtype
        self._memory = WordMemory(self._ranks, dtype)

    def encode(self, texts: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Encode into (ids, offsets int64[texts + 1]); raises TokenizerError for a lone surrogate."""
        groups = _blocks(texts, GROUP_CHARACTERS)
        if threads == 1:
            return self._join(self._encode_group(first, group, map) for first, group in groups)
        with ThreadPoolExecutor(threads) as pool:
            return self._join(self._encode_group(first, group, pool.map) for first, group in groups)

    def encode_with_dropout(self, texts: Sequence[str], probability: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Encode with BPE-dropout, every word anew: chances come from (seed, number of the text, byte in the text)."""
        return self._join(self._drop(texts, probability, seed))

    def _drop(self, texts: Sequence[str], probability: float, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first, group in _blocks(texts, DROPOUT_CHARACTERS):
            words = split_documents(group, self._pattern, first=first)
            dropout = make_dropout(probability, seed, words.starts[words.document_words], first)
            ids, offsets = encode_words(words.data, words.starts, self._ranks, dropout)
            yield ids.astype(self._dtype), offsets[words.document_words]

    def _encode_group(self, first: int, texts: Sequence[str], run: Run) -> tuple[np.ndarray, np.ndarray]:
        if self._memory.num_bytes > MEMORY_BYTES:  # who else encodes goes on with the old one until the group ends
            self._memory = WordMemory(self._ranks, self._dtype)
        try:
            return self._encode_with(self._memory, first, texts, run)
        except BaseException:  # what is half learnt is of no use
            self._memory = WordMemory(self._ranks, self._dtype)
            raise

    def _encode_with(
        self, memory: WordMemory, first: int, texts: Sequence[str], run: Run
    ) -> tuple[np.ndarray, np.ndarray]:
        def identify(block: tuple[int, Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
            words = split_documents(block[1], self._pattern, first=first + block[0])
            return memory.identify(words), words.document_words

        numbers, documents = zip(*run(identify, _blocks(texts, BLOCK_CHARACTERS)), strict=True)
        known = memory.learn(numbers, run)
        return self._join(run(known.take, numbers, documents))

    def _join(self, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        ids, lengths = [np.empty(0, self._dtype)], [np.empty(0, np.int64)]
        for part_ids, offsets in parts:
            ids.append(part_ids)
            lengths.append(np.diff(offsets))
        return np.concatenate(ids), offsets_of(np.concatenate(lengths))


def _blocks(texts: Sequence[str], num_characters: int) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield (texts before, texts) in order, in parts of at least `num_characters` (the last may have fewer)."""
    first, size = 0, 0
    for last, text in enumerate(texts, 1):
        size += len(text)
        if size >= num_characters:
            yield first, texts[first:last]
            first, size = last, 0
    if first < len(texts):
        yield first, texts[first:]
