"""Questions put to a model: which answer it finds likeliest, and what it writes.

Choices are compared by the mean log-probability of their tokens. Of what is written greedily the first line that is not
empty counts, as in the literature of multi-document QA: there it must contain the answer, else be it.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

import model
from evaluation.longcontext.items import Item
from evaluation.longcontext.passages import Passage
from evaluation.scoring import BATCH_TOKENS, score
from evaluation.subject import Subject

__all__ = ["choose", "choose_unread", "first_line", "foresee", "is_answered", "write_answers"]

Progress = Callable[[int, int], object]

MORE_TOKENS = 8
"""How many tokens may be written beyond those of the longest answer."""
_AROUND = " \t\"'`.,;:"


def choose(subject: Subject, items: Sequence[Item], progress: Progress) -> np.ndarray:
    """bool[items]: whether the right answer is the likeliest after the prompt."""
    return _choose(subject, [item.prompt for item in items], items, progress)


def choose_unread(subject: Subject, items: Sequence[Item], progress: Progress) -> np.ndarray:
    """bool[items]: the same without the context, so by guessing from the question alone."""
    prompts = [np.concatenate([item.context[:1], item.question.ids]) for item in items]
    return _choose(subject, prompts, items, progress)


def _choose(subject: Subject, prompts: Sequence[np.ndarray], items: Sequence[Item], progress: Progress) -> np.ndarray:
    rows = [
        np.concatenate([prompt, choice])
        for prompt, item in zip(prompts, items, strict=True)
        for choice in item.question.choices
    ]
    scored = iter(score(subject, rows, progress=progress))
    is_right = []
    for item in items:
        means = [float(next(scored).log_probs[-len(choice) :].mean()) for choice in item.question.choices]
        is_right.append(int(np.argmax(means)) == item.question.right)
    return np.array(is_right, bool)


def write_answers(subject: Subject, items: Sequence[Item], progress: Progress) -> list[str]:
    """What the model writes after each prompt, greedily."""
    written: dict[int, str] = {}
    for batch in _batches(items):
        longest = max(len(choice) for number in batch for choice in items[number].question.choices)
        drawn = model.generate_batch(
            subject.params,
            subject.config,
            [items[number].prompt.tolist() for number in batch],
            longest + MORE_TOKENS,
            model.Sampling(temperature=0),
            seeds=[0] * len(batch),
        )
        written |= {number: subject.tokenizer.decode(ids) for number, ids in zip(batch, drawn, strict=True)}
        progress(len(written), len(items))
    return [written[number] for number in range(len(items))]


def _batches(items: Sequence[Item]) -> Iterator[list[int]]:
    """Yield numbers of items of one length, longest first, as many as are scored at once."""
    for length in sorted({item.length for item in items}, reverse=True):
        numbers = [number for number, item in enumerate(items) if item.length == length]
        most = max(1, BATCH_TOKENS // length)
        for start in range(0, len(numbers), most):
            yield numbers[start : start + most]


def first_line(text: str) -> str:
    """The first line that is not empty, without blanks around it; "" where all are.

    >>> first_line(" \\n  42\\nmore")
    '42'
    """
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def is_answered(item: Item, text: str) -> bool:
    """Whether the first line answers: by holding the answer in the task documents, else by being it."""
    line = first_line(text)
    if item.task == "documents":
        return item.question.answer.strip() in line
    return line.strip(_AROUND) == item.question.answer


def foresee(subject: Subject, passages: Sequence[Passage], progress: Progress) -> np.ndarray:
    """float64[passages, 2]: mean loss (nats a token) of what is scored of each, and in its control (NaN for none)."""
    rows = [ids for passage in passages for ids in (passage.ids, passage.control) if ids is not None]
    scored = iter(score(subject, rows, progress=progress))
    losses = np.full((len(passages), 2), np.nan)
    for number, passage in enumerate(passages):
        for side in range(1 if passage.control is None else 2):
            losses[number, side] = -next(scored).log_probs[-passage.num_scored :].mean(dtype=np.float64)
    return losses
