"""Splitting documents into words, the pieces that merges never cross."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.splitting.o200k import split_o200k
from tokenizer.splitting.patterns import PATTERNS, compile_pattern, resolve_pattern
from tokenizer.splitting.windows import split_gpt2, split_gpt4, split_qwen2

__all__ = ["Words", "split_documents"]

# Larger arrays leave the cache; smaller ones cost more calls and make threads wait for each other.
_BLOCK_BYTES = 1_000_000


class Words(NamedTuple):
    """The words of some documents, joined in order; no byte is lost and no word crosses a document's end."""

    data: np.ndarray  # uint8[bytes]: the documents' UTF-8
    starts: np.ndarray  # int64[words + 1]: where each word starts, then the number of bytes
    document_words: np.ndarray  # int64[documents + 1]: index into `starts` of each document's first word


# (UTF-8 of the documents, int64[documents + 1] their byte offsets) -> int64: sorted starts of all words.
Splitter = Callable[[bytes, np.ndarray], np.ndarray]

# By expression; gpt4 and llama3 are two spellings of the same splits.
_SPLITTERS: dict[str, Splitter] = {
    PATTERNS["gpt2"]: split_gpt2,
    PATTERNS["gpt4"]: split_gpt4,
    PATTERNS["llama3"]: split_gpt4,
    PATTERNS["o200k"]: split_o200k,
    PATTERNS["qwen2"]: split_qwen2,
}


def split_documents(texts: Sequence[str], pattern: str, *, first: int = 0) -> Words:
    """Split each text by a named pattern (`PATTERNS`) or a regular expression.

    >>> split_documents(["ab cd", "", "e"], "gpt4").starts.tolist()
    [0, 2, 5, 6]

    Text that an expression does not match becomes words of its own, so decoding always gives the text back. Raises
    TokenizerError for a lone surrogate (which names the document, counted from `first`) and for a faulty expression.
    """
    splitter = _make_splitter(pattern)
    encoded = [_encode(text, index) for index, text in enumerate(texts, first)]
    offsets = np.concatenate(([0], np.cumsum([len(text) for text in encoded], dtype=np.int64)))
    data = b"".join(encoded)
    starts = []
    for begin, end in _blocks(offsets):
        base = offsets[begin]
        starts.append(splitter(data[base : offsets[end]], offsets[begin : end + 1] - base))
        starts[-1] += base
    all_starts = np.concatenate([*starts, offsets[-1:]])
    return Words(np.frombuffer(data, np.uint8), all_starts, np.searchsorted(all_starts, offsets))


def _encode(text: str, index: int) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        raise TokenizerError(
            f"text must be valid Unicode, got the lone surrogate U+{ord(text[fault.start]):04X} at character "
            f"{fault.start} of document {index}; decode its bytes with errors='replace'"
        ) from None


def _blocks(offsets: np.ndarray) -> list[tuple[int, int]]:
    """Group whole documents into (first, last) ranges of about _BLOCK_BYTES."""
    marks = np.arange(_BLOCK_BYTES, offsets[-1] + _BLOCK_BYTES, _BLOCK_BYTES)
    ends = np.minimum(np.searchsorted(offsets, marks), len(offsets) - 1)
    ends = ends[np.diff(ends, prepend=0) > 0].tolist()
    return list(pairwise([0, *ends]))


def _make_splitter(pattern: str) -> Splitter:
    expression = resolve_pattern(pattern)
    if expression == "":
        return _split_nothing
    splitter = _SPLITTERS.get(expression)
    return splitter or (lambda data, offsets: _split_regex(data, offsets, expression))


def _split_nothing(data: bytes, offsets: np.ndarray) -> np.ndarray:
    """Every document that is not empty is one word."""
    return offsets[:-1][np.diff(offsets) > 0]


def _split_regex(data: bytes, offsets: np.ndarray, expression: str) -> np.ndarray:
    """The slow way, for any expression: what `findall` finds, and what it leaves between, in byte positions."""
    compiled = compile_pattern(expression)
    starts = [np.empty(0, np.int64)]
    for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        text = data[first:last].decode()
        bounds = {0}
        for match in compiled.finditer(text):
            bounds.update(match.span())
        characters = np.array(sorted(bounds - {len(text)}), np.int64)
        if not text.isascii():
            is_lead = (np.frombuffer(data, np.uint8, last - first, first) & 0xC0) != 0x80
            characters = np.flatnonzero(is_lead)[characters]
        starts.append(characters + first)
    return np.concatenate(starts)
