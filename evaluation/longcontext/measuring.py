"""All tasks at all lengths and depths: made first, so that what cannot be asked is told before any model works."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from evaluation.errors import EvaluationError
from evaluation.longcontext import judging
from evaluation.longcontext.facts import Facts
from evaluation.longcontext.haystack import Haystack
from evaluation.longcontext.items import Item
from evaluation.longcontext.keys import make_keys
from evaluation.longcontext.multi_document import make_documents
from evaluation.longcontext.needle import make_needle
from evaluation.longcontext.passages import Passage, make_ending, make_repetition
from evaluation.longcontext.settings import QUESTION_TASKS, LongContextConfig
from evaluation.subject import Subject
from tokenizer.corpus import Document

__all__ = ["NO_DOCUMENT", "Cell", "Tasks", "make_tasks", "measure"]

NO_DOCUMENT = -1

Report = Callable[[str, int, int], object]
"""Called as report(phase, done, total)."""


class Cell(NamedTuple):
    """What a measure is at a length and a depth (None where it has none): a value for each sample."""

    task: str
    measure: str
    length: int
    depth: float | None
    values: np.ndarray
    """float64[samples]."""
    documents: np.ndarray
    """int64[samples]: numbers of the documents that the samples are of; NO_DOCUMENT where that is none."""


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """What a model is asked, in its own tokens."""

    items: list[Item]
    passages: list[Passage]


def make_tasks(
    config: LongContextConfig, subject: Subject, documents: Sequence[Document], begin: int, report: Report
) -> Tasks:
    """Make all questions and passages for the tokenizer of a model; the same ones for the same settings.

    Raises:
        EvaluationError: the documents are too few or too short, or a context is too short for a task.
    """
    haystack = Haystack(subject.tokenizer, documents, begin)
    makers = _makers(haystack, Facts(haystack, config.questions))
    # Longest first, which is where something is missing.
    places = [(length, depth) for length in sorted(config.lengths, reverse=True) for depth in config.depths]
    passages: list[Passage] = []
    for place in places:
        for sample in range(config.samples):
            for task in config.tasks:
                if task == "repetition" or (task == "loss" and place[1] == config.depths[0]):
                    passages.append(_make(task, makers, config, (*place, sample)))
    asked = [task for task in config.tasks if task in QUESTION_TASKS]
    total = len(asked) * len(places) * config.samples
    items: list[Item] = []
    for task in asked:
        for place in places:
            items += [_make(task, makers, config, (*place, sample)) for sample in range(config.samples)]
            report("make questions", len(items), total)
    return Tasks(items=items, passages=passages)


_Makers = dict[str, Callable[[LongContextConfig, int, float, int], Any]]
MOST_TRIED = 1 << 16


def _makers(haystack: Haystack, facts: Facts) -> _Makers:
    """What makes the item or passage of each task: called as make(config, length, depth, sample)."""
    return {
        "needle": lambda config, *place: make_needle(haystack, config, *place),
        "keys": lambda config, *place: make_keys(haystack, config, *place),
        "documents": lambda config, *place: make_documents(haystack, facts, config, *place),
        "repetition": lambda config, *place: make_repetition(haystack, config, *place),
        "loss": lambda config, length, depth, sample: make_ending(haystack, config, length, sample),
    }


def _make(task: str, makers: _Makers, config: LongContextConfig, place: tuple[int, float, int]) -> Any:
    """Make one; where that cannot be, say too which length would do, and how to leave the task out."""
    try:
        return makers[task](config, *place)
    except EvaluationError as error:
        enough = _find_length(task, makers, config, place[0])
        hints = [] if enough is None else [f"--lengths {enough} would do for the task {task}"]
        if others := ",".join(other for other in config.tasks if other != task):
            hints.append(f"--task {others} leaves {task} out")
        raise EvaluationError("; ".join([str(error), *hints])) from None


def _find_length(task: str, makers: _Makers, config: LongContextConfig, length: int) -> int | None:
    """The first of the doubled lengths for which all of a task can be made; None where there is none."""
    while (length := 2 * length) <= MOST_TRIED:
        alone = replace(config, lengths=(length,))
        try:
            for depth in config.depths:
                for sample in range(config.samples):
                    makers[task](alone, length, depth, sample)
        except EvaluationError:
            continue
        return length
    return None


def measure(subject: Subject, tasks: Tasks, report: Report) -> list[Cell]:
    """Put them to the model."""

    def told(phase: str) -> Callable[[int, int], object]:
        return lambda done, total: report(f"{phase} by {subject.name}", done, total)

    cells: list[Cell] = []
    if tasks.items:
        written = judging.write_answers(subject, tasks.items, told("write answers"))
        is_written = [judging.is_answered(item, text) for item, text in zip(tasks.items, written, strict=True)]
        for name, values in (
            ("choice", judging.choose(subject, tasks.items, told("choose answers"))),
            ("written", np.array(is_written)),
            ("unread", judging.choose_unread(subject, tasks.items, told("guess answers"))),
        ):
            cells += _gather(tasks.items, name, values)
    if tasks.passages:
        losses, controls = judging.foresee(subject, tasks.passages, told("foresee passages")).T
        shortest = _at_shortest(tasks.passages, losses)
        cells += _gather(tasks.passages, "loss", losses)
        cells += _gather(tasks.passages, "gain", np.where(np.isnan(controls), shortest, controls) - losses)
    return cells


def _gather(asked: Sequence[Item] | Sequence[Passage], name: str, values: np.ndarray) -> list[Cell]:
    """Values of one measure by task, length and depth, in the order in which these were asked for."""
    by_place: dict[tuple[str, int, float | None], list[int]] = {}
    for number, one in enumerate(asked):
        by_place.setdefault((one.task, one.length, one.depth), []).append(number)
    documents = np.array([NO_DOCUMENT if one.document is None else one.document for one in asked])
    return [
        Cell(task, name, length, depth, values[numbers].astype(np.float64), documents[numbers])
        for (task, length, depth), numbers in by_place.items()
    ]


def _at_shortest(passages: Sequence[Passage], losses: np.ndarray) -> np.ndarray:
    """float64[passages]: of each ending its loss under the shortest context; NaN of the others."""
    endings = [number for number, passage in enumerate(passages) if passage.task == "loss"]
    shortest = min((passages[number].length for number in endings), default=0)
    base = [number for number in endings if passages[number].length == shortest]
    found = np.full(len(passages), np.nan)
    # The samples of each length stand together and in the same order.
    for length in {passages[number].length for number in endings}:
        found[[number for number in endings if passages[number].length == length]] = losses[base]
    return found
