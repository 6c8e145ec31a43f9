"""Answers judged, against log-probabilities and texts made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

import model
from evaluation.longcontext import judging
from evaluation.longcontext.items import Item, Question
from evaluation.longcontext.passages import Passage
from evaluation.scoring import Scored


def item(choices, right, task="needle", answer="42", length=8) -> Item:
    question = Question(np.array([7]), [np.array(choice) for choice in choices], right, answer)
    return Item(task, length, 0.5, np.array([9, 1, 2, 3]), 1, question, None)


@pytest.fixture
def subject(tokenizer):
    """A model of which nobody asks but through what is made by hand."""
    return SimpleNamespace(params=None, config=None, tokenizer=tokenizer)


@pytest.fixture
def scores(monkeypatch):
    """Every token's log-probability is minus a tenth of its id; sequences that are asked for are kept."""
    asked = []

    def score(subject, sequences, *, progress):
        asked.extend(np.asarray(ids).tolist() for ids in sequences)
        return [Scored(-np.array(ids[1:], np.float32) / 10, np.zeros(len(ids) - 1, bool)) for ids in sequences]

    monkeypatch.setattr(judging, "score", score)
    return asked


def test_the_choice_is_the_likeliest_a_token_not_the_likeliest_in_all(scores, subject):
    # Means of 5 and 4, sums of 5 and 12; then the other way around.
    items = [item([[5], [4, 4, 4]], 1), item([[5], [6, 2, 16]], 0), item([[5], [4, 4, 4]], 0)]
    assert judging.choose(subject, items, print).tolist() == [True, True, False]
    assert scores[1] == [9, 1, 2, 3, 7, 4, 4, 4]


def test_unread_leaves_out_all_of_the_context_but_its_first_token(scores, subject):
    assert judging.choose_unread(subject, [item([[5], [4, 4]], 1)], print).tolist() == [True]
    assert scores == [[9, 7, 5], [9, 7, 4, 4]]


def test_losses_are_means_over_the_last_tokens_of_passage_and_control(scores, subject):
    ids, control = np.array([9, 50, 10, 20]), np.array([9, 60, 30, 20])
    passages = [Passage("repetition", 4, 0.0, ids, control, 2, 0), Passage("loss", 4, None, ids, None, 1, 0)]
    np.testing.assert_allclose(judging.foresee(subject, passages, print), [[1.5, 2.5], [2.0, np.nan]], rtol=1e-6)


@pytest.mark.parametrize(
    ("task", "text", "is_right"),
    [
        ("needle", " 42\ndef f():", True),
        ("needle", "\n \n42.\n", True),
        ("keys", ' "42",\n "a": 1', True),
        ("needle", " 421\n", False),
        ("needle", " 4\n2\n", False),
        ("needle", " 41\n42\n", False),
        ("needle", " 42 or so\n", False),
        ("needle", "", False),
        ("documents", "\n  it is 42, surely\nno", True),
        ("documents", "no\n42", False),
    ],
)
def test_the_first_line_that_is_not_empty_counts(task, text, is_right):
    assert judging.is_answered(item([[1], [2]], 0, task), text) == is_right


def test_answers_are_those_of_each_prompt_alone(monkeypatch, subject):
    """In batches of one length that hold no more tokens than are scored at once."""
    batches = []

    def generate_batch(params, config, prompts, max_new_tokens, sampling, *, seeds):
        assert sampling.temperature == 0 and len(seeds) == len(prompts)
        batches.append((len(prompts), max_new_tokens))
        return [[65 + len(prompts)] * 2 for _ in prompts]

    monkeypatch.setattr(model, "generate_batch", generate_batch)
    monkeypatch.setattr(judging, "BATCH_TOKENS", 24)
    items = [item([[1], [2, 2]], 0) for _ in range(4)]
    items.insert(1, item([[1], [2]], 0, length=40))
    assert judging.write_answers(subject, items, print) == ["DD", "BB", "DD", "DD", "BB"]
    assert batches == [(1, 9), (3, 10), (1, 10)]
