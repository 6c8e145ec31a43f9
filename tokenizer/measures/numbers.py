"""Numbers in a vocabulary."""

from collections.abc import Iterable

__all__ = ["count_three_digit_numbers"]

_NUMBERS = frozenset(str(number).encode() for number in range(100, 1000))


def count_three_digit_numbers(tokens: Iterable[bytes]) -> int:
    """Return how many of the numbers 100 to 999, 900 at most, are tokens, with nothing around their digits.

    A vocabulary without bias has nearly all of them, since patterns cut digits in threes (SA-BPE, arXiv 2604.14053).
    """
    return len(_NUMBERS.intersection(tokens))
