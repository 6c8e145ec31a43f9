"""Characters of UTF-8 as classes in an array, and what every vectorised split pattern does with them.

Whether a word starts at a character depends, nearly always, on the classes of four characters: two before it, itself
and the next. So the classes of a whole block are packed into windows of four and looked up in a table. What reaches
further is mended where the table flags it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tokenizer.splitting.unicode_classes import CLASSES, class_table

__all__ = [
    "ClassMaps",
    "Places",
    "classify",
    "contraction_lengths",
    "cut_numbers",
    "find_places",
    "join_white_space",
    "make_class_maps",
    "make_table",
    "make_windows",
    "run_starts",
    "starts_word",
]

# END stands for what is beyond a document; 0, so that clearing bits of a window writes it.
END, LETTER, NUMBER, NEWLINE, BLANK, SPACE, MARK, APOSTROPHE = range(8)  # BLANK is U+0020, SPACE any other but CR, LF
SLASH, UPPER, LOWER, CASELESS, ACCENT = range(8, 13)  # told apart by o200k only
LETTERS = (LETTER, UPPER, LOWER, CASELESS, ACCENT)
PUNCTUATION = (MARK, APOSTROPHE, SLASH)
WHITE = (NEWLINE, BLANK, SPACE)
_CONTINUATIONS = bytes(range(0x80, 0xC0))  # the bytes of a character but its first

STARTS = 1
"""Flag: a word starts here."""


class ClassMaps(NamedTuple):
    """Which class is whose."""

    of_bytes: bytes  # 256 classes; those of bytes outside ASCII mean nothing
    of_code_points: np.ndarray  # uint8[code points]


def make_class_maps(special: dict[str, int]) -> ClassMaps:
    """Return the maps for a pattern that treats some of `CLASSES` in its own way; others are letters or marks."""
    frozen = class_table()
    by_name = dict.fromkeys(CLASSES, MARK) | dict.fromkeys(list(CLASSES)[:5], LETTER)
    by_name |= {"number": NUMBER, "space": SPACE} | special
    renamed = bytes(by_name[name] for name in CLASSES).ljust(256)
    classes = np.frombuffer(bytearray(frozen.tobytes().translate(renamed)), np.uint8)
    classes[[0x0A, 0x0D]] = NEWLINE
    classes[0x20] = BLANK
    classes[0x27] = APOSTROPHE
    return ClassMaps(classes[:128].tobytes() + bytes(128), classes)


def classify(data: bytes, raw: np.ndarray, maps: ClassMaps) -> tuple[np.ndarray, "Places"]:
    """Return the class of each character (uint8) and where characters are.

    `raw` (uint8) is `data` with at least three more bytes.
    """
    classes = np.frombuffer(data.translate(maps.of_bytes, _CONTINUATIONS), np.uint8)
    if data.isascii():
        return classes, _ASCII
    places, classes = find_places(raw[: len(data)]), classes.copy()
    classes[places.wide] = maps.of_code_points[_code_points(raw, places.wide_bytes)]
    return classes, places


class Places(NamedTuple):
    """Which byte is the first of which character. Most characters are one byte; the wide ones are listed."""

    wide: np.ndarray  # int64[wide]: the number of each character of more than one byte, rising
    wide_bytes: np.ndarray  # int64[wide]: its first byte
    shifts: np.ndarray  # int64[wide + 1]: by how much bytes are ahead of characters before each, and after the last

    def to_bytes(self, characters: np.ndarray) -> np.ndarray:
        """Return the first byte of each character (int64 both, rising)."""
        if len(self.wide) == 0:
            return characters
        counts = np.diff(np.searchsorted(characters, self.wide, "right"), prepend=0, append=len(characters))
        return characters + np.repeat(self.shifts, counts)

    def to_characters(self, firsts: np.ndarray) -> np.ndarray:
        """Return the number of the character that starts at each of these bytes (int64 both)."""
        return firsts - self.shifts[np.searchsorted(self.wide_bytes, firsts)]


_ASCII = Places(np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(1, np.int64))


def find_places(raw: np.ndarray) -> Places:
    """Find the characters of UTF-8 (uint8).

    >>> find_places(np.frombuffer("aéb".encode(), np.uint8)).to_bytes(np.arange(3))
    array([0, 1, 3])
    """
    at = np.flatnonzero(raw >= 0xC0)
    leads = raw[at]
    shifts = np.zeros(len(at) + 1, np.int64)
    np.cumsum(1 + (leads >= 0xE0) + (leads >= 0xF0), out=shifts[1:])
    return Places(at - shifts[:-1], at, shifts)


def _code_points(raw: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Decode the characters of two to four bytes that start at `positions`."""
    first, second, third, fourth = (raw[positions + step].astype(np.int32) for step in range(4))
    two = (first & 0x1F) << 6 | (second & 0x3F)
    three = (first & 0x0F) << 12 | (second & 0x3F) << 6 | (third & 0x3F)
    four = (first & 0x07) << 18 | (second & 0x3F) << 12 | (third & 0x3F) << 6 | (fourth & 0x3F)
    return np.where(first < 0xE0, two, np.where(first < 0xF0, three, four))


def make_windows(classes: np.ndarray, firsts: np.ndarray, bits: int) -> np.ndarray:
    """Return uint16[characters]: the classes of two characters before, of itself and of the next, `bits` bits each.

    `firsts` (int64) are the first characters of the documents that are not empty.
    """
    padded = np.zeros(len(classes) + 3, np.uint8)
    padded[2:-1] = classes
    pairs = padded[:-1] << bits | padded[1:]
    windows = pairs[:-2].astype(np.uint16) << 2 * bits | pairs[2:]
    windows[firsts] &= (1 << 2 * bits) - 1
    windows[firsts[1:] - 1] &= (1 << 4 * bits) - (1 << bits)
    seconds = firsts + 1
    windows[seconds[np.diff(seconds, append=len(classes) + 1) > 1]] &= (1 << 3 * bits) - 1
    return windows


def make_table(flags: Callable[[int, int, int, int], int], classes: range, bits: int) -> np.ndarray:
    """Return uint8[2 ** (4 * bits)]: flags(before, last, this, following) of every window of these classes."""
    table = np.zeros(1 << 4 * bits, np.uint8)
    for before in classes:
        for last in classes:
            for this in classes:
                at = (before << 2 * bits | last << bits | this) << bits
                table[at : at + len(classes)] = [flags(before, last, this, following) for following in classes]
    return table


def starts_word(before: int, last: int, this: int, following: int) -> bool:
    """Whether a word of gpt4 and its kin starts at `this`; white space is taken to have no newline later on."""
    if last == END:
        return True
    if this in LETTERS:
        if last in PUNCTUATION:  # the prefix of the letters, when it is a word so far of one character
            return before in (*PUNCTUATION, BLANK)
        return last in (NUMBER, NEWLINE)
    if this == NUMBER:
        return last != NUMBER
    if this in PUNCTUATION:
        return last not in (*PUNCTUATION, BLANK)
    if this == NEWLINE:
        return last not in (*PUNCTUATION, *WHITE)
    if last in (BLANK, SPACE):  # the last of a run goes to the next word, if there is one
        return following not in (*WHITE, END)
    return True


def cut_numbers(starts: np.ndarray, digits: np.ndarray) -> None:
    """Start a word at every third digit of a number; `digits` are the third and later ones."""
    if len(digits) == 0:
        return
    rank = np.arange(len(digits))
    is_third = np.diff(digits, prepend=-2) > 1
    rank -= np.maximum.accumulate(np.where(is_third, rank, 0))
    starts[digits[rank % 3 == 1]] = True


def join_white_space(starts: np.ndarray, classes: np.ndarray, firsts: np.ndarray, newlines: np.ndarray) -> None:
    """White space up to its last newline is one word: newline, blanks, newline does not start a word at the blanks.

    Not so after punctuation, which has taken the newlines that follow it directly. `newlines` follow other white space.
    """
    if len(newlines) == 0:
        return
    is_first = np.zeros(len(classes), bool)
    is_first[firsts] = True
    blanks = run_starts((classes == BLANK) | (classes == SPACE), is_first, newlines - 1)
    blanks = blanks[~is_first[blanks]]
    blanks = blanks[classes[blanks - 1] == NEWLINE]
    group = run_starts(classes == NEWLINE, is_first, blanks - 1)
    is_taken = ~is_first[group] & np.isin(classes[group - 1], PUNCTUATION)
    starts[blanks[~is_taken]] = False


def run_starts(is_member: np.ndarray, is_first: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return where the run of each of `members` starts; runs do not cross documents."""
    is_start = is_member.copy()
    is_start[1:] &= ~is_member[:-1] | is_first[1:]
    found = np.flatnonzero(is_start)
    return found[np.searchsorted(found, members, side="right") - 1]


def contraction_lengths(
    raw: np.ndarray, positions: np.ndarray, is_last: np.ndarray, *, any_case: bool = True
) -> np.ndarray:
    """Return how many of the letters at `positions`, after an apostrophe, are s d m t ll ve re: 0, 1 or 2 (int64).

    In any case, U+017F folds to s. `is_last` (bool) says that the letter ends its document.
    """
    case = 0x20 if any_case else 0
    first, second = raw[positions] | case, raw[positions + 1] | case
    is_one = np.isin(first, np.frombuffer(b"sdmt", np.uint8))
    if any_case:
        is_one |= (raw[positions] == 0xC5) & (raw[positions + 1] == 0xBF)
    is_double_l = (first == ord("l")) & (second == ord("l"))
    is_ve_or_re = ((first == ord("v")) | (first == ord("r"))) & (second == ord("e"))
    return is_one + 2 * ((is_double_l | is_ve_or_re) & ~is_last)
