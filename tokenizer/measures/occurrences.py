"""Where tokens occur: how often in encoded documents, in which repositories, languages and words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenizer.counting.counts import WordCounts, count_words
from tokenizer.measures.encoded_words import EncodedWords, check_text, encode_counts
from tokenizer.measures.merge_graph import count_made
from tokenizer.vocabulary import NUM_BYTES, Tokenizer

__all__ = ["Intermediate", "Occurrences", "Survey", "survey"]

BLOCK_CHARACTERS = 1_000_000
MOST_EXAMPLES = 10
MOST_STANDING = 0.01
"""A token of which a smaller share stays when it is made is intermediate."""


@dataclass(frozen=True, kw_only=True)
class Occurrences:
    """Where one token occurs in encoded documents."""

    count: int
    """How often it is there."""
    made: int
    """How often it was made, also to be merged into others."""
    repositories: tuple[tuple[str, int], ...]
    """Names and counts, most first."""
    languages: tuple[tuple[str, int], ...]
    """Names and counts, most first."""
    words: tuple[tuple[bytes, int], ...]
    """The most frequent words that hold it, and how often these occur; at most MOST_EXAMPLES."""


class Intermediate(NamedTuple):
    """A learned token that hardly ever stays: it is made to be merged on."""

    id: int
    count: int  # how often it is there in encoded documents
    made: int  # how often it was made
    frequency: int | None  # F when its merge was made, if that is known


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What encoded documents tell of a vocabulary."""

    num_documents: int
    num_tokens: int
    """Tokens of all documents."""
    occurrences: dict[int, Occurrences]
    """By id, of the tokens that were asked for."""
    intermediates: tuple[Intermediate, ...]
    """The learned tokens that stay in less than MOST_STANDING of the cases in which they are made; most made first."""


def survey(tokenizer: Tokenizer, ids: Sequence[int], documents: Iterable[Sequence[str]]) -> Survey:
    """Encode documents (text, repository, language, ...), once, and report on tokens.

    Memory holds the distinct words, and the sources of the tokens that are asked for. Raises TokenizerError for
    documents without text.
    """
    tally = _SourceTally(tokenizer, ids)
    counts = count_words(tally.watch(documents), tokenizer.pattern)
    check_text(counts)
    encoded = encode_counts(counts, tokenizer.pairs)
    frequencies = encoded.frequencies(NUM_BYTES + len(tokenizer.pairs))
    made = count_made(tokenizer.pairs, frequencies)
    places = np.argsort(tokenizer.ids)
    occurrences = {}
    for number in dict.fromkeys(ids):
        place = int(places[number])
        is_special = place >= len(made)
        occurrences[number] = Occurrences(
            count=0 if is_special else int(frequencies[place]),
            made=0 if is_special else int(made[place]),
            repositories=tally.by_source(number, 0),
            languages=tally.by_source(number, 1),
            words=() if is_special else _examples(encoded, counts, place),
        )
    return Survey(
        num_documents=tally.num_documents,
        num_tokens=encoded.num_tokens,
        occurrences=occurrences,
        intermediates=_find_intermediates(tokenizer, frequencies, made),
    )


class _SourceTally:
    """Counts tokens that are asked for by (repository, language), as documents pass."""

    def __init__(self, tokenizer: Tokenizer, ids: Sequence[int]) -> None:
        self.num_documents = 0
        self._tokenizer = tokenizer
        self._is_asked = np.zeros(tokenizer.vocab_size, bool)
        self._is_asked[list(ids)] = True
        self._sources: dict[tuple[str, str], int] = {}
        self._counts: Counter[int] = Counter()  # by id << 32 | source

    def watch(self, documents: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        """Yield the documents, counted."""
        block, size = [], 0
        for document in documents:
            block.append(document)
            size += len(document[0])
            if size >= BLOCK_CHARACTERS:
                yield from self._count(block)
                block, size = [], 0
        yield from self._count(block)

    def by_source(self, number: int, kind: int) -> tuple[tuple[str, int], ...]:
        """Names and counts of the repositories (kind 0) or languages (1) of a token, most first, then by name."""
        names = list(self._sources)
        counts: Counter[str] = Counter()
        for key, count in self._counts.items():
            if key >> 32 == number:
                counts[names[key & 0xFFFFFFFF][kind]] += count
        return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def _count(self, block: list[Sequence[str]]) -> list[Sequence[str]]:
        self.num_documents += len(block)
        ids, offsets = self._tokenizer.encode_batch([document[0] for document in block])
        numbers = [self._sources.setdefault((document[1], document[2]), len(self._sources)) for document in block]
        found = np.flatnonzero(self._is_asked[ids])
        sources = np.array(numbers, np.int64)[np.searchsorted(offsets, found, side="right") - 1]
        keys, counts = np.unique(ids[found].astype(np.int64) << 32 | sources, return_counts=True)
        self._counts.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))
        return block


def _examples(encoded: EncodedWords, counts: WordCounts, place: int) -> tuple[tuple[bytes, int], ...]:
    is_wanted = np.zeros(max(place, int(encoded.tokens.max(initial=0))) + 1, bool)
    is_wanted[place] = True
    rows = np.flatnonzero(encoded.hold(is_wanted))
    best = rows[np.argsort(-encoded.counts[rows], kind="stable")[:MOST_EXAMPLES]]
    return tuple((_word(counts, int(encoded.words[row])), int(encoded.counts[row])) for row in best)


def _word(counts: WordCounts, number: int) -> bytes:
    return counts.data[counts.offsets[number] : counts.offsets[number + 1]].tobytes()


def _find_intermediates(tokenizer: Tokenizer, frequencies: np.ndarray, made: np.ndarray) -> tuple[Intermediate, ...]:
    places = NUM_BYTES + np.flatnonzero(frequencies[NUM_BYTES:] < MOST_STANDING * made[NUM_BYTES:])
    most_first = places[np.argsort(-made[places], kind="stable")]
    known = tokenizer.merges
    return tuple(
        Intermediate(
            id=int(tokenizer.ids[place]),
            count=int(frequencies[place]),
            made=int(made[place]),
            frequency=known and int(known.frequency[place - NUM_BYTES]),
        )
        for place in most_first.tolist()
    )
