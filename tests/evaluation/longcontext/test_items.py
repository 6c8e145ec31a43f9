"""Questions: exact lengths, answers told once and at their depth, nothing given away, the same ones every time."""

import json
import re

import numpy as np
import pytest

from evaluation import EvaluationError
from evaluation.longcontext import LongContextConfig
from evaluation.longcontext.facts import Facts
from evaluation.longcontext.haystack import Haystack
from evaluation.longcontext.keys import make_keys
from evaluation.longcontext.multi_document import make_documents
from evaluation.longcontext.needle import make_needle
from tokenizer.corpus import Document

LENGTHS, DEPTHS = (190, 256, 701), (0.0, 0.3, 1.0)
PLACES = [(length, depth, sample) for length in LENGTHS for depth in DEPTHS for sample in range(3)]
SHORTEST_OF_DOCUMENTS = 400
KINDS = ("needle", "needle in prose", "keys", "lines", "definitions")


def make(kind, haystack, length, depth, sample, **settings):
    if kind.startswith("needle"):
        config = LongContextConfig(form="prose" if "prose" in kind else "code", **settings)
        return make_needle(haystack, config, length, depth, sample)
    if kind == "keys":
        return make_keys(haystack, LongContextConfig(**settings), length, depth, sample)
    config = LongContextConfig(questions=kind, documents_per_question=4, **settings)
    return make_documents(haystack, Facts(haystack, kind), config, max(length, SHORTEST_OF_DOCUMENTS), depth, sample)


def texts(haystack, item):
    """Context, question and choices as text."""
    return (
        haystack.decode(item.context[1:]),
        haystack.decode(item.question.ids),
        [haystack.decode(choice).strip() for choice in item.question.choices],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_prompt_and_longest_answer_fill_the_length_exactly(haystack, kind):
    for place in PLACES:
        item = make(kind, haystack, *place)
        assert item.length == max(place[0], SHORTEST_OF_DOCUMENTS if kind in ("lines", "definitions") else 0)
        assert len(item.prompt) + max(map(len, item.question.choices)) == item.length
        assert item.prompt[0] == haystack.begin and haystack.begin not in item.prompt[1:]


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_told_once_and_never_in_the_question(haystack, kind):
    for place in PLACES:
        item = make(kind, haystack, *place)
        context, question, choices = texts(haystack, item)
        answer = item.question.answer
        assert choices[item.question.right] == answer and len(set(choices)) == len(choices)
        assert context.count(answer) == 1
        assert not any(choice in question for choice in choices)
        # The other choices are all there (keys, documents) or none of them is (needle).
        wrong = [choice for choice in choices if choice != answer]
        assert [context.count(choice) for choice in wrong] == [0 if "needle" in kind else 1] * len(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_questions_are_a_function_of_settings_and_place(haystack, tokenizer, documents, kind):
    again = Haystack(tokenizer, list(documents), haystack.begin)
    place = (300, 0.5, 1)
    one, same = make(kind, haystack, *place), make(kind, again, *place)
    others = [
        make(kind, haystack, *place, seed=1),
        make(kind, haystack, 300, 0.5, 2),
        make(kind, haystack, 300, 0.6, 1),
    ]
    assert np.array_equal(one.prompt, same.prompt) and one.question.answer == same.question.answer
    assert not any(np.array_equal(one.prompt, other.prompt) for other in others)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_those_of_the_text(haystack, kind):
    """But for the first line, which may be cut, and for the edges of parts of documents, where a cut line follows."""
    for place in PLACES[::4]:
        item = make(kind, haystack, *place)
        for choice in item.question.choices:
            ids = np.concatenate([item.prompt[1:], choice])
            last_lines = "".join(haystack.decode(ids).splitlines(keepends=True)[-2:])
            encoded = haystack.tokenizer.encode(last_lines)
            assert encoded == ids[-len(encoded) :].tolist()
            if "needle" in kind or kind == "keys":
                ends_line = [haystack.tokenizer.token_bytes[token].endswith(b"\n") for token in ids]
                lines = ids[ends_line.index(True) + 1 :]
                assert haystack.tokenizer.encode(haystack.decode(lines)) == lines.tolist()


@pytest.mark.parametrize("form", ["code", "prose"])
def test_a_needle_is_a_line_at_its_depth(haystack, form):
    longest_line = max(np.diff(haystack.lines(document)).max() for document in range(len(haystack.documents)))
    for length, depth, sample in PLACES:
        item = make_needle(haystack, LongContextConfig(form=form), length, depth, sample)
        context, question, _ = texts(haystack, item)
        fact = haystack.decode(item.context[item.place :]).splitlines()[0]
        assert fact.rstrip(".") == f"{question} {item.question.answer}"
        assert context.count(question) == 1 and context.endswith("\n")
        before, _ = context.split(fact)
        assert before == "" or before.endswith("\n")
        num_hay = (
            len(haystack.encode(before)[0]) + len(item.context) - item.place - len(haystack.encode(fact + "\n")[0])
        )
        assert abs(item.place - 1 - depth * num_hay) <= longest_line


def test_keys_are_lines_of_json_and_one_of_them_is_asked_for(haystack):
    for length, depth, sample in PLACES:
        item = make_keys(haystack, LongContextConfig(), length, depth, sample)
        context, question, _ = texts(haystack, item)
        lines = context.splitlines()
        pairs = json.loads("{" + "".join(lines[1:]).rstrip(",") + "}")
        assert len(pairs) == len(lines) - 1 == len(set(pairs.values()))
        key = question.strip('":')
        assert key not in lines[0] or depth == 0
        asked = haystack.decode(item.context[item.place :]).splitlines()[0]
        assert asked == f"{question} {item.question.answer}," and context.count(question) == 1
        number = lines.index(asked)
        # The first line may be cut, and one more may be whole but never asked for.
        assert number - 2 <= depth * (len(lines) - 1) <= number + 2
        assert depth != 1 or number == len(lines) - 1


@pytest.mark.parametrize("questions", ["lines", "definitions"])
def test_the_document_of_the_question_holds_the_answer_at_its_place(haystack, questions):
    for length, depth, sample in [(400, 0.0, 0), (400, 1.0, 1), (640, 0.5, 0), (640, 1.0, 3)]:
        config = LongContextConfig(questions=questions, choices=3, documents_per_question=length // 100)
        item = make_documents(haystack, Facts(haystack, questions), config, length, depth, sample)
        context, question, _ = texts(haystack, item)
        parts = re.split(r"Document: (\S+)\n", context)
        titles, contents = parts[1::2], parts[2::2]
        assert parts[0] == "" and len(titles) == len(set(titles)) == config.num_documents(length)
        place = round(depth * (len(titles) - 1))
        assert f" in {titles[place]}?" in question and item.question.answer in contents[place]
        assert haystack.decode(item.context[item.place :]).startswith(f"Document: {titles[place]}")
        source = {document.path: document.text for document in haystack.documents}[titles[place]]
        # The beginning of a part may be cut inside a character.
        assert contents[place].lstrip("\ufffd") in source + "\n"
        if questions == "lines":
            cue = question.splitlines()[1]
            assert context.count(cue) == 1
            assert context.split(f"{cue}\n")[1].splitlines()[0].strip() == item.question.answer
        else:
            assert f"def {item.question.answer}(" in contents[place]
        assert max(map(len, map(haystack.encode, contents))) < length


@pytest.mark.parametrize("questions", ["lines", "definitions"])
def test_what_several_documents_say_is_not_asked_for(tokenizer, documents, questions):
    """Half of these are copies of the others under another title."""
    copies = [document._replace(path=f"copies/{document.path.split('/')[-1]}") for document in documents[:4]]
    haystack = Haystack(tokenizer, [*documents[:4], *copies], 0)
    config = LongContextConfig(questions=questions, documents_per_question=4)
    for sample in range(20):
        item = make_documents(haystack, Facts(haystack, questions), config, 600, 0.5, sample)
        context, _, choices = texts(haystack, item)
        assert [context.count(choice) for choice in choices] == [1] * 4


def test_what_does_not_fit_is_told_in_a_line(haystack, tokenizer):
    with pytest.raises(EvaluationError, match=r"lengths must be .* tokens or more for a needle.*got 16"):
        make_needle(haystack, LongContextConfig(), 16, 0.5, 0)
    with pytest.raises(EvaluationError, match=r"documents must have .* name more with --on"):
        make_needle(haystack, LongContextConfig(), 10**6, 0.5, 0)
    with pytest.raises(EvaluationError, match="lengths must have room for 4 keys, got 40"):
        make_keys(haystack, LongContextConfig(), 40, 0.5, 0)
    with pytest.raises(EvaluationError, match=r"lengths must be at most .* take shorter ones or more --digits"):
        make_keys(haystack, LongContextConfig(digits=2), 5000, 0.5, 0)
    with pytest.raises(EvaluationError, match=r"documents must be 4 or more of .* got 0"):
        make("lines", haystack, 20_000, 0.5, 0)
    with pytest.raises(EvaluationError, match="lengths must have room for 3 documents"):
        make_documents(haystack, Facts(haystack, "lines"), LongContextConfig(choices=3), 96, 0.5, 0)
    numbers = Document("".join(f"{number}\n" for number in range(10, 100)), "", "", "numbers")
    with pytest.raises(EvaluationError, match="digits must be enough"):
        make_needle(Haystack(tokenizer, [numbers], 0), LongContextConfig(digits=2), 250, 0.5, 0)
    with pytest.raises(EvaluationError, match="documents must be one or more"):
        Haystack(tokenizer, [], 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": ("needles",)}, "task must be needle, keys, documents, repetition, loss or all, got needles"),
        ({"lengths": ()}, "lengths must be one or more, each once, got none"),
        ({"lengths": (64, 64)}, "lengths must be one or more, each once, got 64,64"),
        ({"lengths": (8,)}, "lengths must be 16 tokens or more, got 8"),
        ({"depths": (0.5, 1.5)}, "depths must be from 0 .* to 1 .*, got 1.5"),
        ({"choices": 1}, "choices must be 2 or more, got 1"),
        ({"digits": 1}, "digits must be 2 or more, got 1"),
        ({"digits": 2, "choices": 91}, "choices must be at most 90"),
    ],
)
def test_settings_are_refused_in_a_line(settings, message):
    with pytest.raises(EvaluationError, match=message):
        LongContextConfig(**settings)
