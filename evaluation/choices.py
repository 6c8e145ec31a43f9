"""Multiple choice by the log-probability of each choice after a context.

A choice is scored as it stands in the text. Context and choice are tokenised together, so a token may reach over the
end of the context. Scored are the tokens after the last token boundary in the context up to which all choices of the
item have the same tokens: so all are scored after the same tokens, and what is left of the context counts alike for
all. <eod> (or what else the model's documents begin with) comes first, also before a context that was cut.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np

from evaluation.choice_items import Item
from evaluation.errors import EvaluationError
from evaluation.scoring import Scored, score
from evaluation.subject import Subject
from tokenizer import Tokenizer

__all__ = ["RULES", "Continuations", "ItemScores", "Rule", "encode_continuations", "score_choices"]

Rule = Literal["mean", "total", "byte"]
RULES: tuple[Rule, ...] = get_args(Rule)
"""By which a choice wins: mean log-probability of its tokens (Dataset Decomposition, https://arxiv.org/abs/2405.13226,
for TOEFL and QuALITY), their sum, or the sum over the bytes of the choice."""


class Continuations(NamedTuple):
    """Texts that go on from one context, as tokens."""

    sequences: list[np.ndarray]
    """int64 each: the first token, the context (cut from its left to fit) and a continuation."""
    first: int
    """Index in `log_probs` of the first token that is scored, the same for all."""
    cut: int
    """Tokens of the context that were left out."""


class ItemScores(NamedTuple):
    """What a model makes of the choices of an item."""

    totals: np.ndarray
    """float64[choices], nats: log-probability of the tokens of each."""
    num_tokens: np.ndarray
    """int64[choices]."""
    num_bytes: np.ndarray
    """int64[choices]: of the choice's own text in UTF-8."""
    cut: int
    """Tokens of the context that did not fit."""

    def by(self, rule: Rule) -> np.ndarray:
        """float64[choices]: scores by a rule; the largest wins, the first of equal ones."""
        sizes = {"mean": self.num_tokens, "total": np.ones(len(self.totals)), "byte": self.num_bytes}
        return self.totals / sizes[rule]


def encode_continuations(
    tokenizer: Tokenizer,
    contexts: Sequence[str],
    continuations: Sequence[Sequence[str]],
    begin: int,
    max_length: int,
    places: Sequence[str] = (),
) -> list[Continuations]:
    """Tokenise the continuations of each context, none of which is empty, with it.

    Args:
        tokenizer: That of the model.
        contexts: May be empty.
        continuations: One or more of each context.
        begin: The token before all.
        max_length: Most inputs of a sequence, the first token too.
        places: What an error calls each of the contexts; none: item 1, 2, ...

    Raises:
        EvaluationError: what must be scored alone has more.
    """
    texts = [context + text for context, group in zip(contexts, continuations, strict=True) for text in group]
    ids, offsets = tokenizer.encode_batch(texts)
    encoded = iter([ids[start:stop].astype(np.int64) for start, stop in pairwise(offsets)])
    groups = [[next(encoded) for _ in group] for group in continuations]
    found = []
    for number, (context, group) in enumerate(zip(contexts, groups, strict=True), 1):
        shared, longest = _shared_tokens(tokenizer, context, group), max(map(len, group))
        if longest - shared > max_length:
            place = places[number - 1] if places else f"item {number}"
            raise EvaluationError(
                f"{place}: choice must have at most max_length={max_length:,} tokens, got {longest - shared:,} after "
                "its context; shorten it, or raise that (--max-length), which is the model's own where it is not given"
            )
        found.append(_fit(group, shared, begin, max_length))
    return found


def score_choices(
    subject: Subject,
    items: Sequence[Item],
    begin: int,
    *,
    between: str = "",
    max_length: int | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[ItemScores]:
    """Score the choices of every item.

    Args:
        subject: The model.
        items: Contexts and choices.
        begin: The token before all.
        between: Text between context and choice, which is scored with the choice.
        max_length: Most inputs of a sequence (None: the model's own); longer contexts are cut from their left.
        progress: Called with the tokens scored and their total.

    Raises:
        EvaluationError: a choice alone is too long.
    """
    limit = subject.max_length if max_length is None else max_length
    contexts = [item.context for item in items]
    choices = [[between + choice for choice in item.choices] for item in items]
    places = [item.place or f"item {number}" for number, item in enumerate(items, 1)]
    encoded = encode_continuations(subject.tokenizer, contexts, choices, begin, limit, places)
    rows = iter(score(subject, [ids for one in encoded for ids in one.sequences], progress=progress))
    return [_gather([next(rows) for _ in item.choices], one, item) for item, one in zip(items, encoded, strict=True)]


def _gather(scored: list[Scored], encoded: Continuations, item: Item) -> ItemScores:
    parts = [one.log_probs[encoded.first :].astype(np.float64) for one in scored]
    return ItemScores(
        totals=np.array([part.sum() for part in parts]),
        num_tokens=np.array([len(part) for part in parts]),
        num_bytes=np.array([len(choice.encode()) for choice in item.choices]),
        cut=encoded.cut,
    )


def _shared_tokens(tokenizer: Tokenizer, context: str, encoded: Sequence[np.ndarray]) -> int:
    """How many first tokens all sequences share that end in the context or with it."""
    length, first = len(context.encode()), encoded[0]
    shared = int(np.sum(np.cumsum(tokenizer.token_lengths[first]) <= length))
    for other in encoded[1:]:
        shared = min(shared, len(other))
        differs = np.flatnonzero(other[:shared] != first[:shared])
        shared = int(differs[0]) if len(differs) else shared
    return shared


def _fit(encoded: Sequence[np.ndarray], shared: int, begin: int, max_length: int) -> Continuations:
    """Put the first token before, and cut the context so that the longest sequence fits: the same for all."""
    cut = max(0, max(map(len, encoded)) - max_length)
    return Continuations([np.concatenate(([begin], ids[cut:])) for ids in encoded], shared - cut, cut)
