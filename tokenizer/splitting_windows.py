"""The gpt4 pattern by boundary algebra: no regular expression, the same words.

Whether a word starts at a character depends, nearly always, on the classes of four characters: two before it, itself
and the next. So the classes of a whole block are packed into 12-bit windows and looked up in a table of 4,096 entries.
Three things reach further and are mended where the table flags them: numbers longer than three digits, white space
that runs on to a later newline, and contractions ('s, 'll), whose letters matter.
"""

from functools import cache

import numpy as np

from tokenizer.unicode_classes import CLASSES, class_table

__all__ = ["split_gpt4"]

# Classes of characters. END stands for what is beyond a document; 0, so that clearing bits of a window writes it.
END, LETTER, NUMBER, NEWLINE, BLANK, SPACE, MARK, APOSTROPHE = range(8)  # BLANK is U+0020, SPACE any other but CR, LF
_PUNCTUATION = (MARK, APOSTROPHE)
_WHITE = (NEWLINE, BLANK, SPACE)
_LEAD = 8  # a byte of a character outside ASCII, until its class is looked up

_STARTS = 1  # a word starts here
_RUNS_ON = 2  # a newline after other white space
_CONTRACTION = 4  # a letter after an apostrophe that starts a word
_LONG_NUMBER = 8  # at least the third digit of a number


def split_gpt4(data: bytes, offsets: np.ndarray) -> np.ndarray:
    """Return the sorted starts (int64, bytes) of the words of UTF-8 documents that begin at offsets[:-1]."""
    raw = np.frombuffer(data + bytes(4), np.uint8)
    classes, positions = _classify(data, raw)
    filled = offsets[:-1][np.diff(offsets) > 0]
    firsts = filled if positions is None else np.searchsorted(positions, filled)
    windows = _windows(classes, firsts)
    flags = _table().take(windows, mode="clip")
    starts = (flags & _STARTS).view(bool)
    flagged = np.flatnonzero(flags > _STARTS)
    if len(flagged):
        kinds = flags[flagged]
        _cut_numbers(starts, flagged[kinds & _LONG_NUMBER > 0])
        _join_white_space(starts, classes, firsts, flagged[kinds & _RUNS_ON > 0])
        letters = flagged[kinds & _CONTRACTION > 0]
        _cut_contractions(starts, windows, letters, raw, letters if positions is None else positions[letters])
    found = np.flatnonzero(starts)
    return found if positions is None else positions[found]


@cache
def _class_maps() -> tuple[bytes, np.ndarray]:
    """Return the class of each byte (256 of them) and of each code point (uint8)."""
    frozen = class_table()
    classes = np.full(len(frozen), MARK, np.uint8)
    classes[frozen <= CLASSES["other_letter"]] = LETTER
    classes[frozen == CLASSES["number"]] = NUMBER
    classes[frozen == CLASSES["space"]] = SPACE
    classes[[0x0A, 0x0D]] = NEWLINE
    classes[0x20] = BLANK
    classes[0x27] = APOSTROPHE
    return classes[:128].tobytes() + bytes([_LEAD]) * 128, classes


def _classify(data: bytes, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the class of each character (uint8) and its byte position, None when each byte is a character."""
    of_bytes, of_code_points = _class_maps()
    classes = np.frombuffer(data.translate(of_bytes), np.uint8)
    if data.isascii():
        return classes, None
    positions = np.flatnonzero((raw[: len(data)] & 0xC0) != 0x80)
    classes = classes[positions]
    rare = np.flatnonzero(classes == _LEAD)
    classes[rare] = of_code_points[_code_points(raw, positions[rare])]
    return classes, positions


def _code_points(raw: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Decode the characters of two to four bytes that start at `positions`."""
    first, second, third, fourth = (raw[positions + step].astype(np.int32) for step in range(4))
    two = (first & 0x1F) << 6 | (second & 0x3F)
    three = (first & 0x0F) << 12 | (second & 0x3F) << 6 | (third & 0x3F)
    four = (first & 0x07) << 18 | (second & 0x3F) << 12 | (third & 0x3F) << 6 | (fourth & 0x3F)
    return np.where(first < 0xE0, two, np.where(first < 0xF0, three, four))


def _windows(classes: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """Return uint16[characters]: the classes of two characters before, of itself and of the next, 3 bits each."""
    padded = np.zeros(len(classes) + 3, np.uint8)
    padded[2:-1] = classes
    pairs = padded[:-1] << 3 | padded[1:]
    windows = pairs[:-2].astype(np.uint16) << 6 | pairs[2:]
    windows[firsts] &= 0o0077
    windows[firsts[1:] - 1] &= 0o7770
    seconds = firsts + 1
    windows[seconds[np.diff(seconds, append=len(classes) + 1) > 1]] &= 0o0777
    return windows


@cache
def _table() -> np.ndarray:
    """Return uint8[4096]: the flags of every window."""
    table = np.zeros(4096, np.uint8)
    for window in range(4096):
        before, last, this, following = (window >> shift & 7 for shift in (9, 6, 3, 0))
        table[window] = _STARTS * _starts_word(before, last, this, following)
        if this == NEWLINE and last in (BLANK, SPACE):
            table[window] |= _RUNS_ON
        if this == LETTER and last == APOSTROPHE and before not in (*_PUNCTUATION, BLANK):
            table[window] |= _CONTRACTION
        if before == last == this == NUMBER:
            table[window] |= _LONG_NUMBER
    return table


def _starts_word(before: int, last: int, this: int, following: int) -> bool:
    """Whether a word starts at `this`; white space is taken to have no newline later on."""
    if last == END:
        return True
    if this == LETTER:
        if last in _PUNCTUATION:  # the prefix of the letters, when it is a word so far of one character
            return before in (*_PUNCTUATION, BLANK)
        return last in (NUMBER, NEWLINE)
    if this == NUMBER:
        return last != NUMBER
    if this in _PUNCTUATION:
        return last not in (*_PUNCTUATION, BLANK)
    if this == NEWLINE:
        return last not in (*_PUNCTUATION, *_WHITE)
    if last in (BLANK, SPACE):  # the last of a run goes to the next word, if there is one
        return following not in (*_WHITE, END)
    return True


def _cut_numbers(starts: np.ndarray, digits: np.ndarray) -> None:
    """Start a word at every third digit of a number; `digits` are the third and later ones."""
    if len(digits) == 0:
        return
    rank = np.arange(len(digits))
    is_third = np.diff(digits, prepend=-2) > 1
    rank -= np.maximum.accumulate(np.where(is_third, rank, 0))
    starts[digits[rank % 3 == 1]] = True


def _join_white_space(starts: np.ndarray, classes: np.ndarray, firsts: np.ndarray, newlines: np.ndarray) -> None:
    """White space up to its last newline is one word: newline, blanks, newline does not start a word at the blanks.

    Not so after punctuation, which has taken the newlines that follow it directly.
    """
    if len(newlines) == 0:
        return
    is_first = np.zeros(len(classes), bool)
    is_first[firsts] = True
    blanks = _run_starts((classes == BLANK) | (classes == SPACE), is_first, newlines - 1)
    blanks = blanks[~is_first[blanks]]
    blanks = blanks[classes[blanks - 1] == NEWLINE]
    group = _run_starts(classes == NEWLINE, is_first, blanks - 1)
    is_taken = ~is_first[group] & (classes[group - 1] >= MARK)
    starts[blanks[~is_taken]] = False


def _run_starts(is_member: np.ndarray, is_first: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return where the run of each of `members` starts; runs do not cross documents."""
    is_start = is_member.copy()
    is_start[1:] &= ~is_member[:-1] | is_first[1:]
    found = np.flatnonzero(is_start)
    return found[np.searchsorted(found, members, side="right") - 1]


def _cut_contractions(
    starts: np.ndarray, windows: np.ndarray, letters: np.ndarray, raw: np.ndarray, positions: np.ndarray
) -> None:
    """After an apostrophe, s d m t ll ve re (any case; U+017F folds to s) are a word; what follows starts another."""
    first, second = raw[positions] | 0x20, raw[positions + 1] | 0x20
    is_long_s = (raw[positions] == 0xC5) & (raw[positions + 1] == 0xBF)
    is_one = np.isin(first, np.frombuffer(b"sdmt", np.uint8)) | is_long_s
    is_double_l = (first == ord("l")) & (second == ord("l"))
    is_ve_or_re = ((first == ord("v")) | (first == ord("r"))) & (second == ord("e"))
    is_two = (is_double_l | is_ve_or_re) & (windows[letters] & 7 == LETTER)
    ends = np.concatenate((letters[is_one] + 1, letters[is_two] + 2))
    following = windows[ends - 1] & 7
    starts[ends[following == LETTER]] = True
