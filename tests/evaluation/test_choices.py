"""Multiple choice by log-probability."""

import argparse
import json

import numpy as np
import pytest

import tokenizer as tokenizers
from evaluation import EvaluationError
from evaluation.__main__ import main
from evaluation.boundaries import find_boundaries
from evaluation.choice_items import Item, read_items
from evaluation.choices import RULES, ItemScores, encode_continuations, score_choices
from evaluation.choices_report import Answers, make_tables, to_json
from evaluation.commands.choices import _write
from evaluation.scoring import score
from training.weights import write_weights

BEGIN = 7


@pytest.fixture(scope="module")
def merged():
    """Knows "ab", " ab" and " abc"."""
    settings = {"special_tokens": ("<eod>",), "num_reserved": 0}
    return tokenizers.train([("abc abc ab abc", "a", "x")], vocab_size=260, priority="F", **settings)


def item(context, *choices, answer=0):
    return Item(context, choices, answer, {})


def spell(tokenizer, ids):
    return [tokenizer.token_bytes[token].decode() for token in ids]


def test_context_and_choices_are_tokenised_together(merged):
    (found,) = encode_continuations(merged, ["x ab"], [["c", " c"]], BEGIN, 99)
    whole = [merged.encode(text) for text in ("x abc", "x ab c")]
    assert [ids.tolist() for ids in found.sequences] == [[BEGIN, *ids] for ids in whole]
    # " abc" reaches over the end of the context, so " ab" of the other choice is scored with it.
    assert spell(merged, found.sequences[0][found.first + 1 :]) == [" abc"]
    assert spell(merged, found.sequences[1][found.first + 1 :]) == [" ab", " ", "c"]


@pytest.mark.parametrize("context", ["", "abc ab", "ab ", "é", "é\n ab"])
def test_choices_are_scored_after_the_same_tokens_with_all_of_their_own_text(merged, context):
    choices = [" c", "c", "bc ab", "ééé"]
    (found,) = encode_continuations(merged, [context], [choices], BEGIN, 99)
    before = {tuple(ids[: found.first + 1]) for ids in found.sequences}
    assert len(before) == 1 and found.cut == 0
    (first,) = before
    assert first[0] == BEGIN and (context + "c").startswith(merged.decode(first[1:]))
    for choice, ids in zip(choices, found.sequences, strict=True):
        assert merged.decode(ids[1:]) == context + choice
        assert merged.decode(ids[found.first + 1 :]).endswith(choice)


def test_a_context_that_does_not_fit_loses_its_left_for_all_choices(merged):
    (whole,) = encode_continuations(merged, ["xyxyxyxy"], [["1", "222"]], BEGIN, 99)
    (short,) = encode_continuations(merged, ["xyxyxyxy"], [["1", "2.2.2"]], BEGIN, 9)
    assert whole.cut == 0 and short.cut == 4
    assert spell(merged, short.sequences[1][1:]) == [*"xyxy", *"2.2.2"] and short.sequences[1][0] == BEGIN
    assert spell(merged, short.sequences[0][1:]) == [*"xyxy", "1"] and short.first == 4
    with pytest.raises(EvaluationError, match="item 2: choice must have at most max_length=4 tokens, got 5 after"):
        encode_continuations(merged, ["xyxy", "xyxy"], [["1"], ["2.2.2"]], BEGIN, 4)


def test_scores_are_sums_over_the_tokens_of_the_choices(subject):
    items = [item("def alpha", "(beta)", "é", answer=1), item("", "let", " gamma = 1")]
    begin = find_boundaries(subject).begin
    texts = [f"{one.context} {choice}" for one in items for choice in one.choices]
    alone = iter(score(subject, [[begin, *subject.tokenizer.encode(text)] for text in texts]))
    for one, found in zip(items, score_choices(subject, items, begin, between=" "), strict=True):
        for number, choice in enumerate(one.choices):
            kept, log_probs = found.num_tokens[number], next(alone).log_probs
            ids = subject.tokenizer.encode(f"{one.context} {choice}")
            assert subject.tokenizer.decode(ids[-kept:]).strip() == choice.strip()
            assert found.totals[number] == pytest.approx(log_probs[-kept:].sum(), abs=1e-4)
            assert found.num_bytes[number] == len(choice.encode())
        np.testing.assert_allclose(found.by("mean") * found.num_tokens, found.by("byte") * found.num_bytes)
        np.testing.assert_array_equal(found.by("total"), found.totals)


def scores(*totals, tokens=(1, 1), num_bytes=(1, 1), cut=0):
    return ItemScores(np.array(totals), np.array(tokens), np.array(num_bytes), cut)


def test_accuracies_are_told_by_each_rule_with_their_difference():
    items = [item("", "a", "b", answer=answer) for answer in (0, 1, 1, 1)]
    right = scores(-3.0, -4.0, tokens=(1, 4), num_bytes=(2, 1), cut=2)  # by mean the second, by byte the first
    first = Answers.of(items, [right] * 4)
    assert {rule: first.is_right[rule].mean() for rule in RULES} == {"mean": 0.75, "total": 0.25, "byte": 0.25}
    assert first.chance == 0.5 and first.num_cut == 4
    second = Answers.of(items, [scores(-1.0, -2.0)] * 4)
    content = to_json({"one": first, "two": second})
    assert content[0]["accuracy"]["mean"] == {"value": 0.75, "error": pytest.approx(0.25)}
    difference = np.array([1.0, -1, -1, -1])
    expected = {"value": -0.5, "error": pytest.approx(difference.std(ddof=1) / 2)}
    assert content[1]["difference_from_first"]["mean"] == expected
    tables = make_tables({"one": first, "two": second})
    assert ("one", "mean", "0.7500", "0.2500", "0.5000", "4") in tables[0].rows
    assert ("two", "mean", "-0.5000", "0.5000") in tables[1].rows


GOOD = {"context": "a", "choices": ["b", "c"], "answer": 1}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[1]", "items.jsonl:2: item must be a JSON object, got "),
        ("{", "items.jsonl:2: item must be a JSON object"),
        (GOOD | {"context": 3}, "items.jsonl:2: context must be a text, got 3"),
        (GOOD | {"choices": []}, "choices must be a list of two texts or more that are not empty, got "),
        (GOOD | {"choices": ["b", ""]}, "choices must be a list of two texts"),
        (GOOD | {"choices": ["b"], "answer": 0}, "choices must be a list of two texts"),
        (
            GOOD | {"choices": ["x", "y", "x"], "answer": "x"},
            'items.jsonl:2: answer must be the number of a choice where several have its text, got "x"; write 0',
        ),
        (GOOD | {"kind": "\ud800"}, r"items.jsonl:2: item must be Unicode text, got half of a surrogate pair, \ud800"),
        (GOOD | {"answer": 2}, "answer must be the number of a choice, from 0, or its text, got 2"),
        (GOOD | {"answer": True}, "answer must be the number"),
        (GOOD | {"answer": "d"}, "answer must be the number"),
        (
            {"context": "a", "choices": ["b", "c"]},
            "answer must be the number of a choice, from 0, or its text, got null",
        ),
    ],
)
def test_a_line_that_is_no_item_is_named(tmp_path, line, fault):
    path = tmp_path / "items.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{line if isinstance(line, str) else json.dumps(line)}\n")
    with pytest.raises(EvaluationError) as caught:
        read_items(path)
    assert fault in str(caught.value) and "\n" not in str(caught.value)


def test_items_keep_what_else_they_say(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(GOOD | {"answer": "c", "kind": "x"}) + "\n\n")
    assert read_items(path) == [Item("a", ("b", "c"), 1, GOOD | {"answer": "c", "kind": "x"}, f"{path}:1")]
    path.write_text("\n")
    with pytest.raises(EvaluationError, match="file must hold an item or more"):
        read_items(path)


def test_a_line_that_is_no_text_is_told_by_its_first_wrong_byte(tmp_path):
    path = tmp_path / "items.jsonl"
    for content, fault in (
        (json.dumps(GOOD).encode() + b'\n{"context": "\xe9"}', ":2: line must be UTF-8, got byte 0xe9 at 13"),
        (
            b"(\xb5/\xfd\x04\x00",
            ":1: line must be UTF-8, got byte 0xb5 at 1; write JSON lines as UTF-8, not compressed",
        ),
    ):
        path.write_bytes(content)
        with pytest.raises(EvaluationError) as caught:
            read_items(path)
        assert fault in str(caught.value) and str(caught.value).isascii()


def test_a_choice_that_does_not_fit_is_told_by_its_line_and_what_bounds_it(subject, tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text("\n" + json.dumps(GOOD | {"choices": ["b", "c" * 9]}) + "\n")
    fault = r"items.jsonl:2: choice must have at most max_length=5 tokens, got \d+ .*raise that .--max-length"
    with pytest.raises(EvaluationError, match=fault):
        score_choices(subject, read_items(path), 0, max_length=5)


KEYS = {"model": "theirs", "log_probs": "theirs", "tokens": 3, "cut": None}


def test_keys_of_an_item_stay_and_hide_nothing(tmp_path):
    path = tmp_path / "out.jsonl"
    scores = ItemScores(np.array([-1.0, -2.0]), np.array([1, 2]), np.array([3, 4]), 0)
    items = [Item("a", ("b", "c"), 1, GOOD | KEYS)]
    answers = {name: Answers.of(items, [scores]) for name in ("one", "two")}
    _write(argparse.Namespace(json=None, output=str(path)), items, answers, [])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["model"] for line in lines] == ["one", "two"]
    for line in lines:
        assert line["item"] == GOOD | KEYS and line["log_probs"] == [-1.0, -2.0] and line["tokens"] == [1, 2]


@pytest.mark.slow
def test_the_command_writes_an_item_a_line(subject, tmp_path, capsys):
    write_weights(tmp_path / "run", subject.params, subject.config, subject.tokenizer)
    (tmp_path / "items.jsonl").write_text(json.dumps(GOOD | {"kind": "x"}) + "\n")
    words = ["choices", str(tmp_path / "run"), "--on", str(tmp_path / "items.jsonl")]
    assert main([*words, "--output", str(tmp_path / "out.jsonl"), "--json", str(tmp_path / "out.json")]) == 0
    (line,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    found = score_choices(subject, [item("a", "b", "c")], find_boundaries(subject).begin)[0]
    assert line["item"]["kind"] == "x" and line["log_probs"] == pytest.approx(found.totals.tolist(), abs=1e-5)
    assert line["predictions"] == {rule: int(found.by(rule).argmax()) for rule in RULES}
    assert "1 item;" in capsys.readouterr().out and json.loads((tmp_path / "out.json").read_text())[0]["items"] == 1
    assert main([*words, "--begin", "<s>"]) == 2
    assert "--begin must be a special token" in capsys.readouterr().err


def test_the_command_refuses_what_cannot_be_before_a_model_is_opened(tmp_path, capsys):
    items, missing = tmp_path / "items.jsonl", tmp_path / "missing.jsonl"
    items.write_text(json.dumps(GOOD) + "\n")
    for words, fault in (
        (["run", "--on", str(items), "--output", str(items)], "--output must not be what is read"),
        (["run", "--on", str(missing)], "file must be readable"),
        (["run", "run", "--on", str(items)], "models must be different, got run run"),
        (["run"], "--on must be given"),
    ):
        try:
            code = main(["choices", *words])
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr().err
        assert code == 2 and fault in said and said.count("\n") == 1
