"""Documents at hand as one endless stream of tokens, cut to any length."""

import random
from collections.abc import Sequence

import numpy as np

from evaluation.errors import EvaluationError
from tokenizer import Tokenizer
from tokenizer.corpus import Document

__all__ = ["Haystack"]


class Haystack:
    """Documents, one after the other, and their tokens.

    Attributes:
        tokenizer: That of the model.
        begin: The token that a text begins with.
        documents: In the order in which they follow each other; each begins on a line of its own.
        ids: int32[tokens], of all documents.
        offsets: int64[documents + 1], where each begins in `ids`.
    """

    def __init__(self, tokenizer: Tokenizer, documents: Sequence[Document], begin: int) -> None:
        if not documents:
            raise EvaluationError("documents must be one or more, got none; name them with --on")
        self.tokenizer = tokenizer
        self.documents = documents
        self.begin = begin
        texts = [text if text.endswith("\n") else text + "\n" for text, *_ in documents]
        ids, self.offsets = tokenizer.encode_batch(texts)
        self.ids = ids.astype(np.int32)
        ends_line = np.array([token.endswith(b"\n") for token in tokenizer.token_bytes])
        self._ends_line = ends_line
        self._line_ends = np.flatnonzero(ends_line[self.ids]) + 1

    def draw(self, rng: random.Random, num_tokens: int) -> tuple[np.ndarray, int]:
        """A stretch that ends where a line of any document does, and may begin anywhere.

        Returns:
            int32[num_tokens], and where in `ids` it begins (below 0: as many tokens from their end).

        Raises:
            EvaluationError: there are fewer tokens.
        """
        if num_tokens > len(self.ids):
            raise EvaluationError(
                f"documents must have {num_tokens:,} tokens or more for a context of that length, got "
                f"{len(self.ids):,} in {len(self.documents):,}; name more with --on or take shorter --lengths"
            )
        end = int(rng.choice(self._line_ends)) if len(self._line_ends) else len(self.ids)
        return self.ids.take(np.arange(end - num_tokens, end), mode="wrap"), end - num_tokens

    def document_at(self, place: int) -> int:
        """The number of the document that has the token at a place in `ids`, which go round at both ends."""
        return int(np.searchsorted(self.offsets, place % len(self.ids), side="right")) - 1

    def split(self, stretch: np.ndarray, depth: float) -> tuple[np.ndarray, np.ndarray]:
        """A stretch in two, between two lines, as near as can be to `depth` of it."""
        places = np.concatenate([[0], np.flatnonzero(self._ends_line[stretch]) + 1])
        place = int(places[np.abs(places - depth * len(stretch)).argmin()])
        return stretch[:place], stretch[place:]

    def lines(self, document: int) -> np.ndarray:
        """int64[lines + 1]: where the lines of a document begin in `ids`, and the end of the last one.

        A token that goes over the end of a line joins two.
        """
        first, last = self.offsets[document : document + 2]
        low, high = np.searchsorted(self._line_ends, [first, last], side="right")
        ends = self._line_ends[low:high]
        return np.concatenate([[first], ends])

    def encode(self, *texts: str) -> list[np.ndarray]:
        """int32[tokens] of each text."""
        ids, offsets = self.tokenizer.encode_batch(texts)
        return np.split(ids.astype(np.int32), offsets[1:-1])

    def decode(self, ids: np.ndarray) -> str:
        """The text of tokens."""
        return self.tokenizer.decode(ids)
