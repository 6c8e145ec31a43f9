"""Names in a vocabulary: how many parts each token has (SA-BPE, arXiv 2604.14053, Figure 3)."""

from collections.abc import Iterable

import regex

__all__ = ["count_name_parts", "split_name"]

# An abbreviation keeps its capitals but for the one that begins the next part; digits belong to the part before them.
_PART = regex.compile(r"(?:\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{L}\p{M}--\p{Lu}]+)\p{N}*", regex.VERSION1)


def split_name(name: str) -> list[str]:
    """Split a name at underscores, at anything else that is no letter, and before capitals.

    >>> split_name("getHTTPStatus"), split_name("_max_value2"), split_name("100")
    (['get', 'HTTP', 'Status'], ['max', 'value2'], [])
    """
    return _PART.findall(name)


def count_name_parts(tokens: Iterable[bytes]) -> list[int]:
    """Return the number of parts of each token, 0 for tokens without a letter; bytes that are not UTF-8 are no letters.

    >>> count_name_parts([b" getHTTPStatus", b"==", b"\\xe6"])
    [3, 0, 0]
    """
    return [len(split_name(token.decode(errors="replace"))) for token in tokens]
