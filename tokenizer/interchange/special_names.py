"""Which names special tokens may have, so that every format can hold them beside learned tokens."""

from collections.abc import Collection
from functools import cache

from tokenizer.merging.ties import byte_alphabet

__all__ = ["is_apart", "spelled_bytes"]


def is_apart(name: str, learned: Collection[bytes]) -> bool:
    """Whether a special token cannot be taken for one of the learned tokens.

    Not so when it has the same bytes; when Hugging Face, which writes a letter for every byte, writes the learned token
    just so ("\u0120the" is " the"); or when it is white space alone, which `tokenizers` finds in any text.
    """
    return bool(name.strip()) and name.encode() not in learned and spelled_bytes(name) not in learned


def spelled_bytes(name: str) -> bytes | None:
    """Return the bytes for which Hugging Face writes these letters; None when it never writes one of them.

    >>> spelled_bytes("\u0120the"), spelled_bytes("<\u4e1c>")
    (b' the', None)
    """
    letters = _letters()
    return bytes(letters[letter] for letter in name) if all(letter in letters for letter in name) else None


@cache
def _letters() -> dict[str, int]:
    return {letter: byte for byte, letter in enumerate(byte_alphabet())}
