"""Counts that grow with every document: of distinct words, and of the repositories and languages that hold them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenizer.allocation import keep_freed_memory
from tokenizer.counting.parts import Batch, Part
from tokenizer.counting.words import WordTable
from tokenizer.ragged import offsets_of, take_rows
from tokenizer.splitting.documents import split_documents

__all__ = ["Counter", "LeftOut", "WordCounts"]

_ENTRIES_BEFORE_SORT = 1 << 20
_NEVER = (1 << 31) - 1  # the batch of a word that was met in none yet


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


class Counter:
    """Counts so far. A source is a repository with a language; entries are (word << 32 | source), int64.

    Batches may be divided among counters, each of which gets its own in rising order. A word's rank, (batch of its
    first occurrence << 32 | its number in the counter that met it there), then puts the words of all counters in the
    order of their first occurrence, for one batch is never in two counters.
    """

    def __init__(self, pattern: str) -> None:
        keep_freed_memory()
        self.num_characters = 0
        self._pattern = pattern
        self._table = WordTable()
        # By word, with room for more:
        self._counts = np.zeros(0, np.int64)
        self._ranks = np.zeros(0, np.int64)
        self._last_sources = np.zeros(0, np.int64)  # spares most entries that are already known
        self._sources: dict[tuple[str, str], int] = {}
        self._source_ranks: list[int] = []
        self._entries = np.zeros(0, np.int64)  # sorted, distinct
        self._new_entries: list[np.ndarray] = []
        self._num_new_entries = 0
        self._left_out = LeftOut()

    @property
    def num_words(self) -> int:
        """Distinct words that are kept."""
        return self._table.size

    def add(self, batch: Batch) -> None:
        """Count the words of a batch, which comes after all that were added."""
        texts = [text for text, _, _ in batch.documents]
        sources = [
            self._number_source(repository, language, batch.number) for _, repository, language in batch.documents
        ]
        self.num_characters += batch.num_characters
        split = split_documents(texts, self._pattern, first=batch.first)
        words = self._identify(split.data, split.starts, batch.number)
        np.add.at(self._counts, words, 1)
        of_words = np.repeat(np.array(sources, np.int64), np.diff(split.document_words))
        is_new = self._last_sources[words] != of_words
        words, of_words = words[is_new], of_words[is_new]
        self._last_sources[words] = of_words
        self._add_entries(_distinct(words << 32 | of_words))

    def part(self) -> Part:
        """Return all that was counted, for another counter to absorb; arrays may be views."""
        words, entries = slice(0, self._table.size), np.concatenate((self._entries, *self._new_entries))
        data, offsets, counts, ranks = self._table.data, self._table.offsets, self._counts[words], self._ranks[words]
        return Part(self.num_characters, data, offsets, counts, ranks, list(self._sources), self._source_ranks, entries)

    def absorb(self, part: Part) -> None:
        """Count what another counter has counted, as if its documents were added here."""
        self.num_characters += part.num_characters
        words = self._identify(part.data, part.offsets, _NEVER)
        self._counts[words] += part.counts
        self._ranks[words] = np.minimum(self._ranks[words], part.ranks)
        sources = []
        for source, rank in zip(part.sources, part.source_ranks, strict=True):
            sources.append(self._number_source(*source, _NEVER))
            self._source_ranks[sources[-1]] = min(self._source_ranks[sources[-1]], rank)
        # Left to be sorted with the others at the end: between parts there is little to sort twice.
        entries = words[part.entries >> 32] << 32 | np.array(sources, np.int64)[part.entries & 0xFFFFFFFF]
        self._new_entries.append(entries)
        self._num_new_entries += len(entries)

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
        self._counts, self._ranks, self._last_sources = counts[kept], self._ranks[kept], self._last_sources[kept]
        data, offsets = take_rows(self._table.data, self._table.offsets, kept)
        self._table = WordTable()
        self._table.identify(data, offsets)

    def result(self) -> WordCounts:
        """Return the counts, by repository and by language."""
        order, places = _order(self._ranks[: self._table.size])
        data, offsets = take_rows(self._table.data, self._table.offsets, order)
        by_rank = [source for _, source in sorted(zip(self._source_ranks, self._sources, strict=True))]
        repositories = _number([repository for repository, _ in by_rank])
        languages = _number([language for _, language in by_rank])
        # Sources sorted by repository: then entries that are sorted by word and source are so by repository too.
        pairs = np.array([repositories[a] << 32 | languages[b] for a, b in self._sources], np.int64)
        source_order, source_places = _order(pairs)
        pairs = pairs[source_order]
        entries = np.concatenate((self._entries, *self._new_entries))
        entries = _distinct(places[entries >> 32] << 32 | source_places[entries & 0xFFFFFFFF])
        words, pairs = entries >> 32, pairs[entries & 0xFFFFFFFF]
        is_first = np.diff(words << 32 | pairs >> 32, prepend=-1) != 0
        return WordCounts(
            data=data,
            offsets=offsets,
            counts=self._counts[order],
            repository_offsets=offsets_of(np.bincount(words[is_first], minlength=len(order))),
            repositories=(pairs[is_first] >> 32).astype(np.int32),
            languages=_language_bits(words, pairs & 0xFFFFFFFF, len(languages)),
            repository_names=tuple(repositories),
            language_names=tuple(languages),
            left_out=self._left_out,
        )

    def _number_source(self, repository: str, language: str, batch: int) -> int:
        number = self._sources.setdefault((repository, language), len(self._sources))
        if number == len(self._source_ranks):
            self._source_ranks.append(batch << 32 | number)
        return number

    def _identify(self, data: np.ndarray, starts: np.ndarray, batch: int) -> np.ndarray:
        """Return the numbers of words (int64[words]), after making room for those that are new."""
        known = self._table.size
        words = self._table.identify(data, starts)
        missing = self._table.size - len(self._counts)
        if missing > 0:
            missing = max(missing, len(self._counts))
            self._counts = np.concatenate((self._counts, np.zeros(missing, np.int64)))
            self._ranks = np.concatenate((self._ranks, np.zeros(missing, np.int64)))
            self._last_sources = np.concatenate((self._last_sources, np.full(missing, -1)))
        self._ranks[known : self._table.size] = np.arange(known, self._table.size) | batch << 32
        return words

    def _add_entries(self, entries: np.ndarray) -> None:
        self._new_entries.append(entries)
        self._num_new_entries += len(entries)
        if self._num_new_entries > max(_ENTRIES_BEFORE_SORT, len(self._entries)):
            self._all_entries()

    def _all_entries(self) -> np.ndarray:
        """Return the entries, sorted and distinct."""
        if self._new_entries:
            self._entries = _distinct(np.concatenate((self._entries, *self._new_entries)))
            self._new_entries, self._num_new_entries = [], 0
        return self._entries


def _number(names: list[str]) -> dict[str, int]:
    """Number distinct names in the order of their first occurrence."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _order(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the values are when sorted, and for each its place among them (int64 both); no two are equal."""
    order = np.argsort(values, kind="stable")  # quick where they rise already
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return order, places


def _language_bits(words: np.ndarray, languages: np.ndarray, num_languages: int) -> np.ndarray:
    """Make `WordCounts.languages` of words, each of 0, 1, ... at least once and in this order, with their languages."""
    starts = np.flatnonzero(np.diff(words, prepend=-1))
    numbers = np.arange(num_languages)
    bits = np.uint64(1) << (numbers & 63).astype(np.uint64)
    table = np.zeros((len(starts), (num_languages + 63) // 64), np.uint64)
    for column in range(table.shape[1] if len(starts) else 0):
        of_column = np.where(numbers >> 6 == column, bits, np.uint64(0))
        table[:, column] = np.bitwise_or.reduceat(of_column[languages], starts)
    return table


def _distinct(values: np.ndarray) -> np.ndarray:
    """Sort and de-duplicate (`np.unique` hashes, which takes 50 times as long here)."""
    values = np.sort(values)
    is_first = np.ones(len(values), bool)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first]
