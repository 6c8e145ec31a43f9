"""Counting distinct words, and which repositories and languages hold them."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np

from tokenizer.counting.words import WordTable
from tokenizer.progress import Progress
from tokenizer.splitting.documents import split_documents

__all__ = ["WordCounts", "count_words"]

_BATCH_CHARACTERS = 500_000  # as many as stay in the second-level cache while they are split and looked up
_TASK_CHARACTERS = 4_000_000  # what a process takes at once
_ENTRIES_BEFORE_SORT = 1 << 20


@dataclass(frozen=True, kw_only=True)
class WordCounts:
    """Distinct words of a corpus, in the order of their first occurrence."""

    data: np.ndarray
    """uint8[bytes]: the words, one after another."""
    offsets: np.ndarray
    """int64[words + 1]: where each word starts in `data`, then the length of `data`."""
    counts: np.ndarray
    """int64[words]: occurrences, at least 1."""
    repository_offsets: np.ndarray
    """int64[words + 1]: which entries of `repositories` are a word's."""
    repositories: np.ndarray
    """int32[entries]: repositories that hold the word, rising."""
    languages: np.ndarray
    """uint64[words, columns]: bit l % 64 of column l // 64 says that language l holds the word."""
    repository_names: tuple[str, ...]
    """By number, in the order of their first occurrence."""
    language_names: tuple[str, ...]
    """By number, in the order of their first occurrence."""


def count_words(
    documents: Iterable[Sequence[str]], pattern: str, *, progress: Progress | None = None, processes: int = 1
) -> WordCounts:
    """Count the words of documents (text, repository, language, ...); memory grows with the distinct words only.

    The result does not depend on `processes`. `progress("count words", characters, None)` is called now and then.
    """
    total = _Counter(pattern)
    if processes == 1:
        for batch in _batches(documents, _BATCH_CHARACTERS):
            total.add(batch)
            _report(progress, total.num_characters, None)
    else:
        for part in _count_in_processes(_batches(documents, _TASK_CHARACTERS), pattern, processes):
            total.absorb(part)
            _report(progress, total.num_characters, None)
    _report(progress, total.num_characters, total.num_characters)
    return total.result()


def _report(progress: Progress | None, done: int, total: int | None) -> None:
    if progress:
        progress("count words", done, total)


def _batches(documents: Iterable[Sequence[str]], num_characters: int) -> Iterator[list[Sequence[str]]]:
    """Group documents, in order, into lists of at least `num_characters` characters (the last may have fewer)."""
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        size += len(document[0])
        if size >= num_characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _count_in_processes(batches: Iterator[list[Sequence[str]]], pattern: str, processes: int) -> Iterator["_Counter"]:
    """Yield a counter for each batch, in the order of the batches; few batches are in memory at a time.

    This process counts too: whenever the others, one fewer than `processes`, have each a batch in hand and one waiting.
    """
    waiting: deque[Future[_Counter]] = deque()
    with ProcessPoolExecutor(processes - 1, mp_context=get_context("spawn")) as pool:
        for batch in batches:
            if sum(not future.done() for future in waiting) < 2 * (processes - 1):
                waiting.append(pool.submit(_count_batch, [tuple(document[:3]) for document in batch], pattern))
            else:
                waiting.append(Future())
                waiting[-1].set_result(_count_batch(batch, pattern))
            while waiting and (waiting[0].done() or len(waiting) > 4 * processes):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _count_batch(documents: list[Sequence[str]], pattern: str) -> "_Counter":
    counter = _Counter(pattern)
    for batch in _batches(documents, _BATCH_CHARACTERS):
        counter.add(batch)
    return counter


class _Counter:
    """Counts so far. A source is a repository with a language; entries are (word << 32 | source), int64."""

    def __init__(self, pattern: str) -> None:
        self.num_characters = 0
        self._pattern = pattern
        self._table = WordTable()
        self._counts = np.zeros(0, np.int64)
        self._last_sources = np.zeros(0, np.int64)  # of each word: spares most entries that are already known
        self._sources: dict[tuple[str, str], int] = {}
        self._entries = np.zeros(0, np.int64)  # sorted, distinct
        self._new_entries: list[np.ndarray] = []
        self._num_new_entries = 0

    def add(self, documents: Sequence[Sequence[str]]) -> None:
        """Count the words of some documents."""
        texts = [document[0] for document in documents]
        sources = [self._number_source(document[1], document[2]) for document in documents]
        self.num_characters += sum(map(len, texts))
        split = split_documents(texts, self._pattern)
        words = self._table.identify(split.data, split.starts)
        self._make_room()
        np.add.at(self._counts, words, 1)
        of_words = np.repeat(np.array(sources, np.int64), np.diff(split.document_words))
        is_new = self._last_sources[words] != of_words
        words, of_words = words[is_new], of_words[is_new]
        self._last_sources[words] = of_words
        self._add_entries(words << 32 | of_words)

    def absorb(self, other: "_Counter") -> None:
        """Count what another counter has counted, as if its documents were added here."""
        self.num_characters += other.num_characters
        words = self._table.identify(other._table.data, other._table.offsets)
        self._make_room()
        self._counts[words] += other._counts[: other._table.size]
        sources = np.array([self._number_source(*source) for source in other._sources], np.int64)
        entries = other._all_entries()
        self._add_entries(words[entries >> 32] << 32 | sources[entries & 0xFFFFFFFF])

    def result(self) -> WordCounts:
        """Return the counts, by repository and by language."""
        repositories = _number([repository for repository, _ in self._sources])
        languages = _number([language for _, language in self._sources])
        entries = self._all_entries()
        words, sources = entries >> 32, entries & 0xFFFFFFFF
        of_source = np.array([repositories[repository] for repository, _ in self._sources], np.int64)
        incidence = _distinct(words << 32 | of_source[sources])
        size = self._table.size
        language_of_source = np.array([languages[language] for _, language in self._sources], np.int64)
        bits = np.zeros((size, (len(languages) + 63) // 64), np.uint64)
        of_entries = language_of_source[sources]
        np.bitwise_or.at(bits, (words, of_entries // 64), np.uint64(1) << (of_entries % 64).astype(np.uint64))
        return WordCounts(
            data=self._table.data.copy(),
            offsets=self._table.offsets.copy(),
            counts=self._counts[:size].copy(),
            repository_offsets=np.searchsorted(incidence, np.arange(size + 1) << 32),
            repositories=(incidence & 0xFFFFFFFF).astype(np.int32),
            languages=bits,
            repository_names=tuple(repositories),
            language_names=tuple(languages),
        )

    def _number_source(self, repository: str, language: str) -> int:
        return self._sources.setdefault((repository, language), len(self._sources))

    def _make_room(self) -> None:
        missing = self._table.size - len(self._counts)
        if missing > 0:
            missing = max(missing, len(self._counts))
            self._counts = np.concatenate((self._counts, np.zeros(missing, np.int64)))
            self._last_sources = np.concatenate((self._last_sources, np.full(missing, -1)))

    def _add_entries(self, entries: np.ndarray) -> None:
        self._new_entries.append(_distinct(entries))
        self._num_new_entries += len(self._new_entries[-1])
        if self._num_new_entries > max(_ENTRIES_BEFORE_SORT, len(self._entries)):
            self._all_entries()

    def _all_entries(self) -> np.ndarray:
        if self._new_entries:
            self._entries = _distinct(np.concatenate((self._entries, *self._new_entries)))
            self._new_entries, self._num_new_entries = [], 0
        return self._entries


def _number(names: list[str]) -> dict[str, int]:
    """Number distinct names in the order of their first occurrence."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _distinct(values: np.ndarray) -> np.ndarray:
    """Sort and de-duplicate (`np.unique` hashes, which takes 50 times as long here)."""
    values = np.sort(values)
    is_first = np.ones(len(values), bool)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first]
