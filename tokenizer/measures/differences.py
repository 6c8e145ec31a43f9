"""What vocabularies do not share."""

from collections.abc import Iterable, Sequence

__all__ = ["count_differences"]


def count_differences(vocabularies: Sequence[Iterable[bytes]]) -> list[list[int]]:
    """Return a matrix: entry [a][b] is how many distinct tokens of vocabulary a are not in vocabulary b.

    >>> count_differences([[b"a", b"ab"], [b"a"]])
    [[0, 1], [0, 0]]
    """
    sets = [frozenset(tokens) for tokens in vocabularies]
    return [[len(rows - columns) for columns in sets] for rows in sets]
