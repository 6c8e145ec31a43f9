"""Documents longer than a context, cut into windows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import EvaluationError
from evaluation.scoring import Scored
from evaluation.windows import check_context, cut_windows, score_in_windows

ANYONE: Any = None


@given(st.data(), st.integers(0, 200), st.integers(1, 50))
def test_every_token_is_scored_once_with_as_much_context_as_promised(data, num_inputs, context):
    stride = data.draw(st.integers(1, context))
    scored = []
    for start, first, stop in cut_windows(num_inputs, context, stride):
        assert 0 <= start <= first < stop <= num_inputs and stop - start <= context
        for target in range(first, stop):
            scored.append(target)
            assert target - start + 1 >= min(context - stride + 1, target + 1)
    assert scored == list(range(num_inputs))


@pytest.fixture
def rows(monkeypatch):
    """What is scored, by a model whose log-probability of a token tells all that it was given before it."""
    scored = []

    def fake_score(subject, sequences, progress):
        scored.extend(sequences)
        return [Scored(np.cumsum(ids[:-1] * np.arange(1, len(ids))) + ids[1:] / 128, ids[1:] > 0) for ids in sequences]

    monkeypatch.setattr("evaluation.windows.score", fake_score)
    return scored


def test_scores_in_windows_are_those_of_each_token_after_its_context_alone(rows):
    ids = [np.random.default_rng(3).integers(0, 99, length) for length in (30, 1, 7)]
    contexts = [(5, 1), (8, 3), (32, 32)]
    for context, found in zip(contexts, score_in_windows(ANYONE, ids, contexts), strict=True):
        for sequence, log_probs in zip(ids, found, strict=True):
            expected = []
            for start, first, stop in cut_windows(len(sequence) - 1, *context):
                for target in range(first, stop):
                    before = sequence[start : target + 1]
                    told = sum(number * token for number, token in enumerate(before, 1))
                    expected.append(told + sequence[target + 1] / 128)
            np.testing.assert_array_equal(log_probs, expected)


def test_windows_that_contexts_share_are_scored_once(rows):
    whole, other = score_in_windows(ANYONE, [np.arange(9), np.arange(30)], [(16, 8), (32, 16)])
    assert sorted(map(len, rows)) == [9, 17, 17, 17, 30]
    np.testing.assert_array_equal(whole[0], other[0])


def test_strides_outside_the_context_are_refused():
    assert (check_context(5, None), check_context(1, None), check_context(5, 5)) == (3, 1, 5)
    for context, stride, fault in ((0, None, "context must be 1"), (4, 5, "stride must be from 1"), (4, 0, "stride")):
        with pytest.raises(EvaluationError, match=fault):
            check_context(context, stride)
