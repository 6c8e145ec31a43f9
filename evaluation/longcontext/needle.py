"""A needle in a haystack: a made-up fact planted in documents at a depth, and asked for at the end.

The numbers to choose from are drawn alike and only the planted one is in the context, so whoever does not read it is
right once in `choices`.
"""

import random

import numpy as np

from evaluation.errors import EvaluationError
from evaluation.longcontext.haystack import Haystack
from evaluation.longcontext.items import Item, Question, make_item
from evaluation.longcontext.names import draw_names, draw_numbers, generator_of, hold_any
from evaluation.longcontext.settings import LongContextConfig

__all__ = ["make_needle"]

TRIES = 100


def make_needle(haystack: Haystack, config: LongContextConfig, length: int, depth: float, sample: int) -> Item:
    """The needle of a sample, in documents that hold neither its name nor any of the numbers to choose from.

    Raises:
        EvaluationError: the documents are too few, or the context is too short for a fact and its question.
    """
    rng = generator_of(config.seed, "needle", length, depth, sample)
    for _ in range(TRIES):
        name, numbers = draw_names(rng, 1)[0], draw_numbers(rng, config.choices, config.digits)
        fact, question = _make_fact(haystack, config, rng, name, numbers)
        left = length - 1 - len(fact) - question.num_tokens
        if left < 0:
            raise EvaluationError(
                f"lengths must be {length - left} tokens or more for a needle and its question, got {length}; take "
                "longer ones"
            )
        hay, first = haystack.draw(rng, left)
        if hold_any(haystack.decode(hay), (name, name.replace("_", " "), *numbers)):
            continue
        before, after = haystack.split(hay, depth)
        pieces = [before, fact, after]
        document = haystack.document_at(first + max(0, min(len(before), left - 1)))
        return make_item("needle", length, depth, haystack.begin, pieces, len(before), question, document)
    raise EvaluationError(
        f"digits must be enough for numbers that documents do not hold, got {config.digits}; take more --digits"
    )


def _make_fact(
    haystack: Haystack, config: LongContextConfig, rng: random.Random, name: str, numbers: list[str]
) -> tuple[np.ndarray, Question]:
    """Tokens of a line that gives a name one of the numbers, and the question for it."""
    if config.form == "code":
        cue, end = f"{name} =", "\n"
    else:
        cue, end = f"The secret number of {name.replace('_', ' ')} is", ".\n"
    right = rng.randrange(len(numbers))
    fact, asked, *choices = haystack.encode(f"{cue} {numbers[right]}{end}", cue, *(f" {number}" for number in numbers))
    return fact, Question(asked, choices, right, numbers[right])
