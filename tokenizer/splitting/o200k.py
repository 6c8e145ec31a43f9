"""The pattern o200k by boundary algebra: words end between a small and a capital letter, contractions stay on theirs.

Nearly all boundaries follow from windows of four classes; numbers, white space and contractions are mended as in gpt4,
and so is the run of newlines and slashes that punctuation takes. What depends on more is rare outside prose that mixes
scripts, and goes to the regular expression, from one certain boundary to the next:

- a capital after a letter without case (or an accent): whether it starts a word depends on the end of the letters;
- an accent after punctuation: part of it when that is longer than one mark, else a letter;
- a contraction after a contraction.
"""

from functools import cache

import numpy as np

from tokenizer.splitting.characters import (
    ACCENT,
    APOSTROPHE,
    BLANK,
    CASELESS,
    END,
    LOWER,
    MARK,
    NEWLINE,
    NUMBER,
    PUNCTUATION,
    SLASH,
    SPACE,
    STARTS,
    UPPER,
    WHITE,
    ClassMaps,
    classify,
    contraction_lengths,
    cut_numbers,
    join_white_space,
    make_class_maps,
    make_table,
    make_windows,
    run_starts,
    starts_word,
)
from tokenizer.splitting.patterns import PATTERNS, compile_pattern

__all__ = ["split_o200k"]

_BITS = 4
_CLASSES = range(ACCENT + 1)
_LETTERS = (UPPER, LOWER, CASELESS, ACCENT)  # what words are made of

_RUNS_ON = 2  # a newline after other white space
_CONTRACTION = 4  # a letter after an apostrophe that ends letters
_LONG_NUMBER = 8  # at least the third digit of a number
_SLASH_ON = 16  # a slash after a newline
_UNSURE = 32  # left to the regular expression

# A character of each class outside ASCII, as old as Unicode itself.
_EXAMPLES = {NUMBER: "²", SPACE: "\xa0", MARK: "¡", UPPER: "É", LOWER: "é", CASELESS: "ª", ACCENT: "\u0301"}


def split_o200k(data: bytes, offsets: np.ndarray) -> np.ndarray:
    """Return the sorted starts (int64, bytes) of the words of UTF-8 documents that begin at offsets[:-1]."""
    raw = np.frombuffer(data + bytes(4), np.uint8)
    classes, places = classify(data, raw, _class_maps())
    filled = offsets[:-1][np.diff(offsets) > 0]
    firsts = places.to_characters(filled)
    windows = make_windows(classes, firsts, _BITS)
    flags = _table().take(windows, mode="clip")
    starts = (flags & STARTS).view(bool)
    flagged = np.flatnonzero(flags > STARTS)
    if len(flagged):
        kinds = flags[flagged]
        cut_numbers(starts, flagged[kinds & _LONG_NUMBER > 0])
        join_white_space(starts, classes, firsts, flagged[kinds & _RUNS_ON > 0])
        _take_slashes(starts, classes, windows, firsts, flagged[kinds & _SLASH_ON > 0])
        letters = flagged[kinds & _CONTRACTION > 0]
        lengths = contraction_lengths(raw, places.to_bytes(letters), windows[letters] & 15 == END)
        chained = _join_contractions(starts, windows, letters, lengths)
        unsure = np.concatenate((flagged[kinds & _UNSURE > 0], chained))
        if len(unsure):
            where = places.to_bytes(np.arange(len(classes)))
            _ask_expression(starts, _spell(raw, where, classes), windows, unsure)
    return places.to_bytes(np.flatnonzero(starts))


@cache
def _class_maps() -> ClassMaps:
    maps = make_class_maps(
        {"uppercase": UPPER, "titlecase": UPPER, "lowercase": LOWER}
        | {"modifier": CASELESS, "other_letter": CASELESS, "mark": ACCENT}
    )
    classes = maps.of_code_points.copy()
    classes[0x2F] = SLASH
    return ClassMaps(classes[:128].tobytes() + maps.of_bytes[128:], classes)


@cache
def _examples() -> np.ndarray:
    """Return uint32[classes]: a code point of each."""
    return np.array([ord(_EXAMPLES.get(kind, "\0")) for kind in _CLASSES], np.uint32)


@cache
def _table() -> np.ndarray:
    """Return uint8[65536]: the flags of every window."""
    return make_table(_flags, _CLASSES, _BITS)


@cache
def _certain_table() -> np.ndarray:
    """Return bool[65536]: the windows in which a word starts at `this`, whatever stands further off."""
    certain = (*WHITE, MARK, SLASH)
    ends = (UPPER, LOWER, CASELESS, NUMBER)
    table = make_table(
        lambda before, last, this, following: last == END or (last in ends and this in certain), _CLASSES, _BITS
    )
    return table.astype(bool)


def _flags(before: int, last: int, this: int, following: int) -> int:
    is_start = (this == UPPER and last == LOWER) or starts_word(before, last, this, following)
    flags = STARTS * is_start  # as far as four characters tell
    if this == NEWLINE and last in (BLANK, SPACE):
        flags |= _RUNS_ON
    if this in (UPPER, LOWER) and last == APOSTROPHE and before in _LETTERS:
        flags |= _CONTRACTION
    if before == last == this == NUMBER:
        flags |= _LONG_NUMBER
    if this == SLASH and last == NEWLINE:
        flags |= _SLASH_ON
    if (this == UPPER and last in (CASELESS, ACCENT)) or (this == ACCENT and last in PUNCTUATION):
        flags |= _UNSURE
    return flags


def _take_slashes(
    starts: np.ndarray, classes: np.ndarray, windows: np.ndarray, firsts: np.ndarray, slashes: np.ndarray
) -> None:
    """Punctuation takes all the newlines and slashes that follow it; `slashes` follow newlines."""
    if len(slashes) == 0:
        return
    is_first = np.zeros(len(classes), bool)
    is_first[firsts] = True
    is_tail = (classes == NEWLINE) | (classes == SLASH)
    runs = run_starts(is_tail, is_first, slashes)
    is_taken = (classes[runs] == SLASH) | (~is_first[runs] & np.isin(classes[runs - 1], PUNCTUATION))
    is_taken[1:] |= runs[1:] == runs[:-1]  # an earlier slash of the run has started a word of punctuation
    starts[slashes[is_taken]] = False
    is_end = ~is_tail
    is_end[firsts] = True
    ends = np.append(np.flatnonzero(is_end), len(classes))
    ends = ends[np.searchsorted(ends, slashes[is_taken], side="right")]
    ends = ends[ends < len(classes)]
    starts[ends] = True
    # One mark after the run is a word so far, and may be the prefix of letters.
    is_prefix = np.isin(classes[ends], PUNCTUATION) & np.isin(windows[ends] & 15, _LETTERS) & ~is_first[ends]
    starts[ends[is_prefix] + 1] = False


def _join_contractions(starts: np.ndarray, windows: np.ndarray, letters: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Join apostrophes and contractions to the letters before them; returns the letters of those in doubt."""
    letters, lengths = letters[lengths > 0], lengths[lengths > 0]
    ends = letters + lengths
    starts[letters - 1] = False
    starts[letters + lengths - 1] = False
    starts[ends[np.isin(windows[ends - 1] & 15, _LETTERS)]] = True
    return letters[np.isin(letters - 1, ends)]


def _spell(raw: np.ndarray, positions: np.ndarray, classes: np.ndarray) -> str:
    """Return the text with one character for each class, so that an expression sees only classes of the frozen tables.

    ASCII stays, and U+017F, which contractions know.
    """
    leads = raw[positions]
    code_points = np.where(leads < 128, leads, _examples()[classes]).astype("<u4")
    code_points[(leads == 0xC5) & (raw[positions + 1] == 0xBF)] = 0x17F
    return code_points.tobytes().decode("utf-32-le")


def _ask_expression(starts: np.ndarray, text: str, windows: np.ndarray, unsure: np.ndarray) -> None:
    """Split `text` anew from the certain boundary before each of `unsure` to the next."""
    certain = np.append(np.flatnonzero(_certain_table().take(windows)), len(starts))
    regions = np.unique(np.searchsorted(certain, unsure, side="right"))
    expression = compile_pattern(PATTERNS["o200k"])
    for first, last in zip(certain[regions - 1].tolist(), certain[regions].tolist(), strict=True):
        starts[first:last] = False
        starts[[match.start() for match in expression.finditer(text, first, last)]] = True
