"""Key-value retrieval: lines of keys and numbers fill the context, and one key is asked for again.

As in Lost in the Middle (https://arxiv.org/abs/2307.03172, section 3), but with names that take fewer tokens. The
numbers to choose from are those of other keys in the context, so whoever takes any number that was there is right once
in `choices`.
"""

import random
from typing import NamedTuple

import numpy as np

from evaluation.errors import EvaluationError
from evaluation.longcontext.haystack import Haystack
from evaluation.longcontext.items import Item, Question, make_item
from evaluation.longcontext.names import draw_names, draw_numbers, generator_of
from evaluation.longcontext.settings import LongContextConfig

__all__ = ["make_keys"]


class _Pair(NamedTuple):
    """A line of the context in its parts, int32[tokens] each: `"name":`, ` number` and the end of the line."""

    cue: np.ndarray
    value: np.ndarray
    end: np.ndarray
    number: str

    @property
    def line(self) -> np.ndarray:
        return np.concatenate([self.cue, self.value, self.end])


def make_keys(haystack: Haystack, config: LongContextConfig, length: int, depth: float, sample: int) -> Item:
    """The keys of a sample: as many as fill the context; the first line may be cut, and is never asked for.

    Raises:
        EvaluationError: the context is too short for as many keys as there are choices, or takes more than there are.
    """
    rng = generator_of(config.seed, "keys", length, depth, sample)
    pairs = _draw_pairs(haystack, config, rng, length)
    # Lines of which nothing is cut, whichever is asked for.
    left = length - 1 - max(len(pair.cue) for pair in pairs) - max(len(pair.value) for pair in pairs)
    ends = np.cumsum([len(pair.line) for pair in reversed(pairs)])
    num_whole = int((ends <= left).sum())
    if num_whole < config.choices:
        raise EvaluationError(
            f"lengths must have room for {config.choices} keys, got {length} with room for {num_whole}; take longer "
            "ones or fewer --choices"
        )
    whole = range(len(pairs) - num_whole, len(pairs))
    asked = whole[round(depth * (num_whole - 1))]
    chosen = [asked, *rng.sample([other for other in whole if other != asked], config.choices - 1)]
    rng.shuffle(chosen)
    choices = [pairs[one].value for one in chosen]
    question = Question(pairs[asked].cue, choices, chosen.index(asked), pairs[asked].number)
    num_read = length - 1 - question.num_tokens
    context = np.concatenate([pair.line for pair in pairs])[-num_read:]
    place = num_read - int(ends[len(pairs) - 1 - asked])
    return make_item("keys", length, depth, haystack.begin, [context], place, question)


def _draw_pairs(haystack: Haystack, config: LongContextConfig, rng: random.Random, length: int) -> list[_Pair]:
    """Pairs whose lines have so many tokens or more."""
    # A line has four tokens or more.
    names = draw_names(rng, length // 4 + 1)
    numbers = draw_numbers(rng, len(names), config.digits)
    cues, values = (
        haystack.encode(*texts) for texts in ([f'"{one}":' for one in names], [f" {one}" for one in numbers])
    )
    (end,) = haystack.encode(",\n")
    pairs, total = [], 0
    for cue, value, number in zip(cues, values, numbers, strict=False):
        pairs.append(_Pair(cue, value, end, number))
        total += len(pairs[-1].line)
        if total >= length:
            return pairs
    raise EvaluationError(
        f"lengths must be at most {total:,} tokens, which is what different keys and numbers give, got {length:,}; "
        "take shorter ones or more --digits"
    )
