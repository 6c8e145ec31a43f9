"""Questions that one of several documents answers (multi-document QA), made of documents at hand.

As in Lost in the Middle (https://arxiv.org/abs/2307.03172, section 2), the document with the answer stands at any place
among others. Here all of them are parts of real documents under their titles, and what is asked for stands in one of
them once. Who has not read them may still guess from the wording, so models are asked without the documents, too.
"""

import random
from typing import NamedTuple

import numpy as np

from evaluation.errors import EvaluationError
from evaluation.longcontext.facts import Fact, Facts
from evaluation.longcontext.haystack import Haystack
from evaluation.longcontext.items import Item, Question, make_item
from evaluation.longcontext.names import generator_of
from evaluation.longcontext.settings import LongContextConfig

__all__ = ["make_documents"]

TRIES = 50


class _Source(NamedTuple):
    """A document of a question."""

    document: int
    title: str
    fact: Fact


def make_documents(
    haystack: Haystack, facts: Facts, config: LongContextConfig, length: int, depth: float, sample: int
) -> Item:
    """The documents of a sample and the question for one of them, with answers to choose from of the others.

    Raises:
        EvaluationError: documents that are long enough and have something to ask for are too few.
    """
    rng = generator_of(config.seed, f"documents:{config.questions}", length, depth, sample)
    count = config.num_documents(length)
    share = (length - 1) // count
    long_enough = np.flatnonzero(np.diff(haystack.offsets) >= share).tolist()
    for _ in range(TRIES):
        sources = _choose(haystack, facts, rng, long_enough, count, share)
        if len(sources) < count:
            raise EvaluationError(
                f"documents must be {count} or more of {share:,} tokens for a context of {length:,}, with "
                f"{config.questions} to ask for, got {len(sources)}; name more with --on or take other --lengths"
            )
        asked = round(depth * (count - 1))
        question = _ask(haystack, config, rng, sources, asked)
        pieces = _cut(haystack, rng, sources, length - 1 - question.num_tokens)
        if pieces is None or not _is_told_once(haystack, pieces, question, sources, asked):
            continue
        before = sum(map(len, pieces[: 2 * asked]))
        return make_item("documents", length, depth, haystack.begin, pieces, before, question, sources[asked].document)
    raise EvaluationError(
        f"lengths must have room for {count} documents under their titles, got {length:,}; take longer ones, fewer "
        "--choices or --documents-per-question"
    )


def _choose(
    haystack: Haystack, facts: Facts, rng: random.Random, candidates: list[int], count: int, share: int
) -> list[_Source]:
    """Different documents with a fact each that fits into half a share and has a whole share before its end."""
    sources: list[_Source] = []
    titles: set[str] = set()
    for document in rng.sample(candidates, len(candidates)):
        title = _title(haystack, document)
        first = int(haystack.offsets[document])
        fit = [fact for fact in facts.of(document) if fact.end - fact.start <= share / 2 and fact.end - first >= share]
        if fit and title not in titles:
            sources.append(_Source(document, title, rng.choice(fit)))
            titles.add(title)
        if len(sources) == count:
            break
    return sources


def _title(haystack: Haystack, document: int) -> str:
    """The last two parts of its path."""
    path = haystack.documents[document].path or f"document {document}"
    return "/".join(path.replace("\n", " ").split("/")[-2:])


def _ask(
    haystack: Haystack, config: LongContextConfig, rng: random.Random, sources: list[_Source], asked: int
) -> Question:
    """The question for one of the sources; the other answers are what would be right for others of them."""
    others = [number for number in range(len(sources)) if number != asked]
    chosen = [asked, *rng.sample(others, config.choices - 1)]
    rng.shuffle(chosen)
    title, fact = sources[asked].title, sources[asked].fact
    if config.questions == "definitions":
        text, blank = f"Question: what is defined in {title}?\nAnswer:", " "
    else:
        text, blank = f"Question: which line follows this one in {title}?\n{fact.cue}\n", ""
    ids, *choices = haystack.encode(text, *(f"{blank}{sources[number].fact.answer}" for number in chosen))
    return Question(ids, choices, chosen.index(asked), fact.answer.strip())


def _cut(haystack: Haystack, rng: random.Random, sources: list[_Source], num_tokens: int) -> list[np.ndarray] | None:
    """A title and a part of each document, so many tokens in all; None where a fact does not fit into its part."""
    titles = haystack.encode(*(f"Document: {source.title}\n" for source in sources))
    left, extra = divmod(num_tokens - sum(map(len, titles)), len(sources))
    pieces = []
    for number, (title, source) in enumerate(zip(titles, sources, strict=True)):
        share, fact = left + (number < extra), source.fact
        if fact.end - fact.start > share:
            return None
        ends = haystack.lines(source.document)
        end = int(rng.choice(ends[(ends >= fact.end) & (ends <= fact.start + share)]))
        pieces += [title, haystack.ids[end - share : end]]
    return pieces


def _is_told_once(
    haystack: Haystack, pieces: list[np.ndarray], question: Question, sources: list[_Source], asked: int
) -> bool:
    """Whether each answer to choose from stands once in the documents and nowhere in the question, and the cue once."""
    text, asking = haystack.decode(np.concatenate(pieces)), haystack.decode(question.ids)
    answers = {haystack.decode(choice).strip() for choice in question.choices}
    once = [*answers, *([sources[asked].fact.cue.strip()] if sources[asked].fact.cue else [])]
    return (
        len(answers) == len(question.choices)
        and all(text.count(part) == 1 for part in once)
        and not any(answer in asking for answer in answers)
    )
