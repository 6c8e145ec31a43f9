"""What is asked of a model: a prompt, answers to choose from, and which is right."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Item", "Question", "make_item"]


class Question(NamedTuple):
    """What is asked, and the answers to choose from."""

    ids: np.ndarray
    """int32[tokens], up to the answer."""
    choices: Sequence[np.ndarray]
    """int32[tokens] each; different, and only one is right."""
    right: int
    """Number of the right one."""
    answer: str
    """The right answer as text."""

    @property
    def num_tokens(self) -> int:
        """Tokens that it takes with its longest answer."""
        return len(self.ids) + max(map(len, self.choices))


class Item(NamedTuple):
    """A question after its context. Both and the longest answer have `length` tokens together."""

    task: str
    length: int
    depth: float
    """Where what is asked for was to stand, from 0 to 1."""
    context: np.ndarray
    """int32[tokens]: what is read, from the token before a document on."""
    place: int
    """Where in it the right answer, or the fact that holds it, begins."""
    question: Question
    document: int | None
    """Number of the document that what is asked for stands in; None where none has it."""

    @property
    def prompt(self) -> np.ndarray:
        """int32[tokens]: all that comes before the answer."""
        return np.concatenate([self.context, self.question.ids])


def make_item(
    task: str,
    length: int,
    depth: float,
    begin: int,
    pieces: Sequence[np.ndarray],
    place: int,
    question: Question,
    document: int | None = None,
) -> Item:
    """Join `begin` and the pieces of the context; `place` counts from the beginning of the pieces."""
    context = np.concatenate([[begin], *pieces]).astype(np.int32)
    assert len(context) + question.num_tokens == length
    return Item(task, length, depth, context, place + 1, question, document)
