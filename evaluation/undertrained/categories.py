"""Kinds of tokens, by rules of our own for the kinds that the SA-BPE paper (arXiv 2604.14053) tells apart.

The first rule that fits:

1. intermediate: it is made to be merged on: of the cases in which it is made, it stays in fewer than 1%;
2. non-Latin: it has a letter of another script;
3. punctuation: it has punctuation or symbols, and neither letters nor digits;
4. upper-case Latin: capitals alone;
5. names: nothing but Latin letters, digits and underscores, with a letter among them: variable names and their parts;
6. other: all else, such as spaces, numbers, and mixtures of names and punctuation.

Under 4 and 5 one other character may come first, as split patterns let a space or a dot begin a word.
"""

import regex

from tokenizer.measures.occurrences import MOST_STANDING

__all__ = ["CATEGORIES", "categorize"]

CATEGORIES = ("intermediate", "non-Latin", "punctuation", "upper-case Latin", "names", "other")

_FOREIGN = regex.compile(r"[\p{L}\p{M}--\p{Latin}--\p{Inherited}]", regex.VERSION1)
_PUNCTUATION = regex.compile(r"[^\p{L}\p{M}\p{N}]*[\p{P}\p{S}][^\p{L}\p{M}\p{N}]*")
_CAPITALS = regex.compile(r"[^\p{L}\p{N}_]?[\p{Lu}\p{M}]+")
_NAME = regex.compile(r"[^\p{L}\p{N}_]?(?=.*\p{L})[\p{L}\p{M}\p{N}_]+")


def categorize(token: bytes, standing: float = float("nan")) -> str:
    """The category of a token; `standing` is the share of cases in which it stays when it is made, NaN if unknown.

    >>> [categorize(token) for token in (b" fooBar", b"HTTP", b");", "д".encode(), b"   ", b"(x)")]
    ['names', 'upper-case Latin', 'punctuation', 'non-Latin', 'other', 'other']
    >>> categorize(b"OOLEAN", 0.002)
    'intermediate'
    """
    text = token.decode(errors="replace")
    if standing < MOST_STANDING:
        return "intermediate"
    if _FOREIGN.search(text):
        return "non-Latin"
    for category, pattern in (("punctuation", _PUNCTUATION), ("upper-case Latin", _CAPITALS), ("names", _NAME)):
        if pattern.fullmatch(text):
            return category
    return "other"
