"""What tokenizers make of documents: read once, in blocks, and encoded once by each tokenizer."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.measures.subject import Subject
from tokenizer.progress import Progress

__all__ = ["TextSize", "Usage", "measure_usage"]

BLOCK_CHARACTERS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class TextSize:
    """How much text there is, by language; languages are in the order of their names."""

    languages: tuple[str, ...]
    """Names; "" for documents that have none."""
    num_documents: np.ndarray
    """int64[languages]"""
    num_bytes: np.ndarray
    """int64[languages], of UTF-8."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one tokenizer made of the text, by language in the same order."""

    num_tokens: np.ndarray
    """int64[languages]"""
    is_used: np.ndarray
    """bool[languages, tokens of the vocabulary]: whether a token occurs."""
    token_counts: np.ndarray
    """int64[tokens of the vocabulary]: how often each occurs, over all languages."""
    cpu_seconds: float = field(compare=False)
    """Time spent on encoding, of all threads; depends on the machine."""


def measure_usage(
    subjects: Sequence[Subject], documents: Iterable[Sequence[str]], *, progress: Progress | None = None
) -> tuple[TextSize, list[Usage]]:
    """Encode documents (text, repository, language, ...) with every tokenizer.

    Memory holds a block of about a million characters (or one longer document) and a byte for every language and token.
    Neither the size of blocks nor the order of documents changes what is returned. `progress("encode", bytes, None)` is
    called for every block. Raises TokenizerError for text that is not Unicode and when there is no text at all.
    """
    tallies = [_Tally(subject) for subject in subjects]
    numbers: dict[str, int] = {}
    num_documents, num_bytes = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for block in _blocks(documents):
        texts = [document[0] for document in block]
        # languages: (documents,), numbered in the order of their first occurrence
        languages = np.array([numbers.setdefault(document[2], len(numbers)) for document in block])
        first = int(num_documents.sum())
        sizes = np.array([_count_bytes(text, first + index) for index, text in enumerate(texts)])
        num_documents = _grow(num_documents, len(numbers))
        num_bytes = _grow(num_bytes, len(numbers))
        np.add.at(num_documents, languages, 1)
        np.add.at(num_bytes, languages, sizes)
        for tally in tallies:
            tally.add(texts, languages, len(numbers))
        if progress:
            progress("encode", int(num_bytes.sum()), None)
    if not num_bytes.sum():
        raise TokenizerError("documents must hold some text to measure, got none; see their paths and languages")
    order = np.array([numbers[language] for language in sorted(numbers)])
    size = TextSize(languages=tuple(sorted(numbers)), num_documents=num_documents[order], num_bytes=num_bytes[order])
    return size, [tally.result(order) for tally in tallies]


class _Tally:
    """Counts of one tokenizer, by language in the order of their first occurrence."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        num_tokens = len(subject.token_bytes)
        self._token_counts = np.zeros(num_tokens, np.int64)
        self._is_used = np.zeros((0, num_tokens), bool)
        self._num_tokens = np.zeros(0, np.int64)
        self._cpu_seconds = 0.0

    def add(self, texts: Sequence[str], languages: np.ndarray, num_languages: int) -> None:
        start = time.process_time()
        ids, offsets = self._subject.encode_batch(texts)
        self._cpu_seconds += time.process_time() - start
        lengths = np.diff(offsets)
        self._num_tokens = _grow(self._num_tokens, num_languages)
        np.add.at(self._num_tokens, languages, lengths)
        self._token_counts += np.bincount(ids, minlength=len(self._token_counts))
        self._is_used = _grow(self._is_used, num_languages)
        self._is_used[np.repeat(languages, lengths), ids] = True

    def result(self, order: np.ndarray) -> Usage:
        return Usage(
            num_tokens=self._num_tokens[order],
            is_used=self._is_used[order],
            token_counts=self._token_counts,
            cpu_seconds=self._cpu_seconds,
        )


def _blocks(documents: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    """Group documents, in order, into lists of at least BLOCK_CHARACTERS characters (the last may have fewer)."""
    block, size = [], 0
    for document in documents:
        block.append(document)
        size += len(document[0])
        if size >= BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block


def _count_bytes(text: str, index: int) -> int:
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as fault:
        raise TokenizerError(
            f"text must be valid Unicode, got the lone surrogate U+{ord(text[fault.start]):04X} at character "
            f"{fault.start} of document {index}; decode its bytes with errors='replace'"
        ) from None


def _grow(rows: np.ndarray, size: int) -> np.ndarray:
    """Return `rows` with zeros for further rows, so that there are `size`."""
    if len(rows) == size:
        return rows
    return np.concatenate((rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)))
