"""The words met so far and their ids, for all threads of an encoder."""

from collections.abc import Sequence
from threading import Condition, Lock
from typing import NamedTuple

import numpy as np

from tokenizer.counting.word_batches import WordBatch
from tokenizer.counting.words import WordTable
from tokenizer.encoding.pair_ranks import PairRanks
from tokenizer.encoding.word_encoding import Run, encode_words
from tokenizer.ragged import take_rows
from tokenizer.splitting.documents import Words

__all__ = ["WordIds", "WordMemory"]


class WordMemory:
    """Words and their ids. Safe among threads: known words are found without a lock, and each is merged once.

    The table is ahead of the ids: words are added first, and encoded in larger groups, by `learn`.
    """

    def __init__(self, ranks: PairRanks, dtype: np.dtype) -> None:
        self._ranks = ranks
        self._table = WordTable()
        self._adding = Lock()
        self._ids = _Growing(dtype)
        self._offsets = _Growing(np.dtype(np.int64))
        self._offsets.append(np.zeros(1, np.int64))
        self._num_taken = 0  # words that a thread encodes or has encoded
        self._is_broken = False  # an exception left words taken and not encoded
        self._change = Condition()  # guards the ids, their offsets and these two

    @property
    def num_bytes(self) -> int:
        """Of all words."""
        return self._table.data.size

    def identify(self, words: Words) -> np.ndarray:
        """Return the number of each word (int32[words]); those not met before are added."""
        batch = WordBatch.make(words.data, words.starts)
        numbers = self._table.find(batch)
        unknown = np.flatnonzero(numbers < 0)
        if len(unknown):
            with self._adding:
                numbers[unknown] = self._table.add(batch.take(unknown))
        return numbers

    def learn(self, numbers: Sequence[np.ndarray], run: Run) -> "WordIds":
        """Encode what is new, and return the ids of words among which are these (int32[words] each).

        `run` is `map`, or that of several threads.
        """
        self._encode_new(run)
        most = max((int(block.max(initial=-1)) for block in numbers), default=-1)
        with self._change:
            self._wait_for(most + 1)
            return WordIds(self._ids.values, self._offsets.values)

    def _wait_for(self, num_words: int) -> None:
        """Wait, with the lock held, until at least so many words are encoded."""
        self._change.wait_for(lambda: self._is_broken or self._offsets.values.size > num_words)
        if self._is_broken:
            raise RuntimeError("encoding was interrupted in another thread; encode again")

    def _encode_new(self, run: Run) -> None:
        """Encode the words that the table has and no thread has taken; ids come in the order of the words."""
        with self._adding, self._change:
            first, self._num_taken = self._num_taken, self._table.size
            offsets, data = self._table.offsets[first:], self._table.data
        if len(offsets) == 1:
            return
        try:
            ids, id_offsets = encode_words(data[offsets[0] :], offsets - offsets[0], self._ranks, run=run)
            with self._change:
                self._wait_for(first)
                id_offsets += self._ids.values.size
                self._ids.append(ids.astype(self._ids.values.dtype))
                self._offsets.append(id_offsets[1:])
                self._change.notify_all()
        except BaseException:
            with self._change:
                self._is_broken = True
                self._change.notify_all()
            raise


class WordIds(NamedTuple):
    """The ids of word w are ids[offsets[w] : offsets[w + 1]]."""

    ids: np.ndarray
    offsets: np.ndarray  # int64[words + 1]

    def take(self, numbers: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of words (int32[words]), and where they are cut before words `bounds` (int64, both)."""
        ids, offsets = take_rows(self.ids, self.offsets, numbers)
        return ids, offsets[bounds]


class _Growing:
    """An array that is appended to, in memory that doubles; what was appended stays as it is."""

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
