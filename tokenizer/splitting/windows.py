"""The patterns gpt4, qwen2 and gpt2 by boundary algebra: no regular expression, the same words.

Three things reach further than four characters: numbers longer than three digits, white space that runs on to a later
newline, and contractions ('s, 'll), whose letters matter.
"""

from functools import cache

import numpy as np

from tokenizer.splitting.characters import (
    APOSTROPHE,
    BLANK,
    END,
    LETTER,
    MARK,
    NEWLINE,
    NUMBER,
    SPACE,
    STARTS,
    WHITE,
    ClassMaps,
    classify,
    contraction_lengths,
    cut_numbers,
    join_white_space,
    make_class_maps,
    make_table,
    make_windows,
    starts_word,
)

__all__ = ["split_gpt2", "split_gpt4", "split_qwen2"]

_BITS = 3
_CLASSES = range(APOSTROPHE + 1)
_PUNCTUATION = (MARK, APOSTROPHE)

_RUNS_ON = 2  # a newline after other white space
_CONTRACTION = 4  # a letter after an apostrophe that starts a word
_LONG_NUMBER = 8  # at least the third digit of a number


def split_gpt4(data: bytes, offsets: np.ndarray) -> np.ndarray:
    """Return the sorted starts (int64, bytes) of the words of UTF-8 documents that begin at offsets[:-1]."""
    return _split(data, offsets, "gpt4")


def split_qwen2(data: bytes, offsets: np.ndarray) -> np.ndarray:
    """Split as gpt4, but every digit is a word; arguments and result likewise."""
    return _split(data, offsets, "qwen2")


def split_gpt2(data: bytes, offsets: np.ndarray) -> np.ndarray:
    """Split as GPT-2: all words take one blank before, newlines are blanks; arguments and result likewise."""
    return _split(data, offsets, "gpt2")


def _split(data: bytes, offsets: np.ndarray, pattern: str) -> np.ndarray:
    raw = np.frombuffer(data + bytes(4), np.uint8)
    classes, places = classify(data, raw, _class_maps())
    filled = offsets[:-1][np.diff(offsets) > 0]
    firsts = places.to_characters(filled)
    windows = make_windows(classes, firsts, _BITS)
    flags = _table(pattern).take(windows, mode="clip")
    starts = (flags & STARTS).view(bool)
    flagged = np.flatnonzero(flags > STARTS)
    if len(flagged):
        kinds = flags[flagged]
        cut_numbers(starts, flagged[kinds & _LONG_NUMBER > 0])
        join_white_space(starts, classes, firsts, flagged[kinds & _RUNS_ON > 0])
        letters = flagged[kinds & _CONTRACTION > 0]
        is_last = windows[letters] & 7 == END
        lengths = contraction_lengths(raw, places.to_bytes(letters), is_last, any_case=pattern != "gpt2")
        _cut_contractions(starts, windows, letters[lengths > 0], lengths[lengths > 0])
    return places.to_bytes(np.flatnonzero(starts))


def _cut_contractions(starts: np.ndarray, windows: np.ndarray, letters: np.ndarray, lengths: np.ndarray) -> None:
    """After an apostrophe, `lengths` (int64) of `letters` and on are its word; what follows starts another."""
    starts[letters] = False
    ends = letters + lengths
    starts[ends[windows[ends - 1] & 7 == LETTER]] = True


@cache
def _class_maps() -> ClassMaps:
    return make_class_maps({})


@cache
def _table(pattern: str) -> np.ndarray:
    """Return uint8[4096]: the flags of every window."""
    flags = _flags_gpt2 if pattern == "gpt2" else _flags_gpt4
    table = make_table(flags, _CLASSES, _BITS)
    if pattern == "qwen2":
        is_number = np.arange(table.size) >> _BITS & 7 == NUMBER
        table[is_number] = STARTS
    return table


def _flags_gpt4(before: int, last: int, this: int, following: int) -> int:
    flags = STARTS * starts_word(before, last, this, following)
    if this == NEWLINE and last in (BLANK, SPACE):
        flags |= _RUNS_ON
    if this == LETTER and last == APOSTROPHE and before not in (*_PUNCTUATION, BLANK):
        flags |= _CONTRACTION
    if before == last == this == NUMBER:
        flags |= _LONG_NUMBER
    return flags


def _flags_gpt2(before: int, last: int, this: int, following: int) -> int:
    flags = STARTS * _starts_gpt2(last, this, following)
    if this == LETTER and last == APOSTROPHE and before not in (*_PUNCTUATION, BLANK):
        flags |= _CONTRACTION
    return flags


def _starts_gpt2(last: int, this: int, following: int) -> bool:
    """Whether a word starts at `this`, apart from contractions."""
    if last == END:
        return True
    if this in WHITE:  # the last of a run goes to the next word, if there is one
        return last not in WHITE or following not in (*WHITE, END)
    kind = _PUNCTUATION if this in _PUNCTUATION else (this,)
    return last not in (*kind, BLANK)
