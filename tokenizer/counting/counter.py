"""Counts that grow with every document: of distinct words, and of the repositories and languages that hold them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenizer.allocation import keep_freed_memory
from tokenizer.counting.words import WordTable
from tokenizer.ragged import take_rows
from tokenizer.splitting.documents import split_documents

__all__ = ["Counter", "LeftOut", "Part", "WordCounts"]

_ENTRIES_BEFORE_SORT = 1 << 20


class LeftOut(NamedTuple):
    """Words that were forgotten to bound memory."""

    words: int = 0
    """How many, each time that one was."""
    occurrences: int = 0
    """How often they had occurred."""
    most_missing: int = 0
    """The most that any word's count is too low by."""


NOTHING = LeftOut()


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
    left_out: LeftOut = NOTHING
    """What was forgotten."""


class Part(NamedTuple):
    """What some documents in a row add to counts."""

    num_characters: int
    data: np.ndarray  # uint8: their words, in the order of their first occurrence
    offsets: np.ndarray  # int64[words + 1]
    counts: np.ndarray  # int64[words]
    sources: list[tuple[str, str]]  # repository and language
    entries: np.ndarray  # int64: word << 32 | source, both numbers within this part


class Counter:
    """Counts so far. A source is a repository with a language; entries are (word << 32 | source), int64."""

    def __init__(self, pattern: str, *, gives_parts: bool = False) -> None:
        keep_freed_memory()
        self._gives_parts = gives_parts
        self._met: list[np.ndarray] = []  # words since the last part, in the order of their first occurrence
        self.num_characters = 0
        self._pattern = pattern
        self._table = WordTable()
        self._counts = np.zeros(0, np.int64)
        self._last_sources = np.zeros(0, np.int64)  # of each word: spares most entries that are already known
        self._sources: dict[tuple[str, str], int] = {}
        self._entries = np.zeros(0, np.int64)  # sorted, distinct
        self._new_entries: list[np.ndarray] = []
        self._num_new_entries = 0
        self._left_out = LeftOut()

    @property
    def num_words(self) -> int:
        """Distinct words that are kept."""
        return self._table.size

    def add(self, documents: Sequence[Sequence[str]]) -> None:
        """Count the words of some documents."""
        texts = [document[0] for document in documents]
        sources = [self._number_source(document[1], document[2]) for document in documents]
        self.num_characters += sum(map(len, texts))
        split = split_documents(texts, self._pattern)
        words = self._table.identify(split.data, split.starts)
        self._make_room()
        if self._gives_parts:
            new = words[self._counts[words] == 0]
            self._met.append(new[np.sort(np.unique(new, return_index=True)[1])])
        np.add.at(self._counts, words, 1)
        of_words = np.repeat(np.array(sources, np.int64), np.diff(split.document_words))
        is_new = self._last_sources[words] != of_words
        words, of_words = words[is_new], of_words[is_new]
        self._last_sources[words] = of_words
        self._add_entries(words << 32 | of_words)

    def take_part(self) -> "Part":
        """Return what was counted since the last call, and count anew from here; the words stay in the table."""
        words = np.concatenate([np.zeros(0, np.int64), *self._met])
        data, offsets = take_rows(self._table.data, self._table.offsets, words)
        places = np.full(self._table.size, -1)
        places[words] = np.arange(len(words))
        entries = self._all_entries()
        entries = places[entries >> 32] << 32 | entries & 0xFFFFFFFF
        part = Part(self.num_characters, data, offsets, self._counts[words], list(self._sources), entries)
        self._counts[words], self._last_sources[words] = 0, -1
        self.num_characters, self._sources, self._met, self._entries = 0, {}, [], np.zeros(0, np.int64)
        return part

    def absorb(self, part: "Part") -> None:
        """Count what another counter has counted, as if its documents were added here."""
        self.num_characters += part.num_characters
        words = self._table.identify(part.data, part.offsets)
        self._make_room()
        self._counts[words] += part.counts
        sources = np.array([self._number_source(*source) for source in part.sources], np.int64)
        self._add_entries(words[part.entries >> 32] << 32 | sources[part.entries & 0xFFFFFFFF])

    def forget(self, limit: int) -> None:
        """Leave out the rarest words, all of one count together, until at most `limit` are kept.

        A word that comes back counts from nothing (lossy counting, Manku and Motwani 2002, by a limit on the
        words instead of an error), so a count is too low by at most the sum of the counts that were left out.
        """
        counts = self._counts[: self._table.size]
        if len(counts) <= limit:
            return
        lowest = int(np.partition(counts, len(counts) - limit - 1)[len(counts) - limit - 1])
        kept = np.flatnonzero(counts > lowest)
        words, occurrences, most_missing = self._left_out
        self._left_out = LeftOut(
            words + len(counts) - len(kept), occurrences + int(counts[counts <= lowest].sum()), most_missing + lowest
        )
        entries = self._all_entries()
        numbers = np.full(len(counts), -1)
        numbers[kept] = np.arange(len(kept))
        moved = numbers[entries >> 32]
        self._entries = (moved << 32 | entries & 0xFFFFFFFF)[moved >= 0]
        self._counts, self._last_sources = counts[kept], self._last_sources[kept]
        data, offsets = take_rows(self._table.data, self._table.offsets, kept)
        self._table = WordTable()
        self._table.identify(data, offsets)

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
            left_out=self._left_out,
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
