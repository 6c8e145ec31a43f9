"""Decoding ids as they come, without ever showing half a character."""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tokenizer.vocabulary import Tokenizer

__all__ = ["StreamingDecoder"]


class StreamingDecoder:
    """Turns ids into text piece by piece; the pieces and the last one joined are what ``decode`` gives.

    >>> decoder = StreamingDecoder(Tokenizer(np.zeros((0, 2))))
    >>> [decoder.feed([byte]) for byte in "aé".encode()], decoder.finish()
    (['a', '', 'é'], '')
    """

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text that these ids complete. Raises TokenizerError for an unknown id."""
        return self._decoder.decode(self._tokenizer.decode_bytes(ids))

    def finish(self) -> str:
        """Return what is left: U+FFFD for a character that was never completed, else nothing. Starts anew."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
