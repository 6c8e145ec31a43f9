"""Passages that come again, and ends of documents under more and more of what came before them.

Both need no understanding of a question, so that models show a use of distant context long before they answer any.
"""

from typing import NamedTuple

import numpy as np

from evaluation.errors import EvaluationError
from evaluation.longcontext.haystack import Haystack
from evaluation.longcontext.names import generator_of
from evaluation.longcontext.settings import LongContextConfig

__all__ = ["Passage", "make_ending", "make_repetition"]


class Passage(NamedTuple):
    """Tokens of which the last ones are scored."""

    task: str
    length: int
    depth: float | None
    ids: np.ndarray
    """int32[length]."""
    control: np.ndarray | None
    """int32[length] with the same last tokens, or None."""
    num_scored: int
    document: int
    """Number of the document that the passage or the end is of, or begins in."""


def make_repetition(haystack: Haystack, config: LongContextConfig, length: int, depth: float, sample: int) -> Passage:
    """A passage in a context that ends with it again; in the control another passage stands at the first place.

    Raises:
        EvaluationError: the context is too short for the passage twice, or the documents are too few.
    """
    rng, num_tokens = generator_of(config.seed, "repetition", length, depth, sample), config.passage
    left = length - 1 - 2 * num_tokens
    if left < 0:
        raise EvaluationError(
            f"passage must be at most {(length - 1) // 2} tokens to stand twice in a context of {length}, got "
            f"{num_tokens}; take shorter ones with --passage or longer --lengths"
        )
    # One stretch, so that none of the three is part of another.
    stretch, start = haystack.draw(rng, length - 1)
    passage, other, hay = np.split(stretch, [num_tokens, 2 * num_tokens])
    place = round(depth * left)
    ids, control = (
        np.concatenate([[haystack.begin], hay[:place], first, hay[place:], passage]).astype(np.int32)
        for first in (passage, other)
    )
    return Passage("repetition", length, depth, ids, control, num_tokens, haystack.document_at(start))


def make_ending(haystack: Haystack, config: LongContextConfig, length: int, sample: int) -> Passage:
    """The end of a part of a document, after as much of it as the context takes.

    A sample's last tokens are the same for all lengths, whose longest the part before it fills.

    Raises:
        EvaluationError: no document is as long as the longest context, or the context is no longer than the passage.
    """
    # Another set of lengths asks about other documents.
    longest = max(config.lengths)
    rng = generator_of(config.seed, "loss", longest, 0.0, sample)
    if config.passage >= length:
        raise EvaluationError(
            f"passage must be shorter than a context of {length} tokens, got {config.passage}; set --passage"
        )
    sizes = np.diff(haystack.offsets)
    long_enough = np.flatnonzero(sizes >= longest - 1)
    if not len(long_enough):
        raise EvaluationError(
            f"documents must have {longest - 1:,} tokens or more for their loss in a context of {longest:,}, got at "
            f"most {sizes.max():,}; name others with --on or take shorter --lengths"
        )
    document = int(rng.choice(long_enough))
    end = rng.randint(int(haystack.offsets[document]) + longest - 1, int(haystack.offsets[document + 1]))
    ids = np.concatenate([[haystack.begin], haystack.ids[end - length + 1 : end]]).astype(np.int32)
    return Passage("loss", length, None, ids, None, config.passage, document)
