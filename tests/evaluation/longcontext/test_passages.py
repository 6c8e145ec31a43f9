"""Passages that come again, and ends of documents."""

import numpy as np
import pytest

from evaluation import EvaluationError
from evaluation.longcontext import LongContextConfig
from evaluation.longcontext.passages import make_ending, make_repetition


@pytest.mark.parametrize("depth", [0.0, 0.4, 1.0])
def test_a_repetition_differs_from_its_control_in_the_first_passage_alone(haystack, depth):
    config = LongContextConfig(passage=20)
    for length, sample in [(41, 0), (64, 1), (333, 2)]:
        made = make_repetition(haystack, config, length, depth, sample)
        assert made.control is not None
        assert len(made.ids) == len(made.control) == length and made.ids[0] == haystack.begin
        first = 1 + round(depth * (length - 41))
        differs = np.flatnonzero(made.ids != made.control)
        assert len(differs) and first <= differs.min() and differs.max() < first + 20
        np.testing.assert_array_equal(made.ids[first : first + 20], made.ids[-20:])
        np.testing.assert_array_equal(made.control[-20:], made.ids[-20:])
        begun = haystack.decode(made.ids[-20:]).split("\n")[0]
        assert begun in haystack.documents[made.document].text


def test_endings_of_a_sample_are_one_document_read_further_and_further_back(haystack):
    config = LongContextConfig(lengths=(40, 200, 90), passage=16)
    for sample in range(5):
        made = {length: make_ending(haystack, config, length, sample) for length in config.lengths}
        assert all(len(one.ids) == length and one.ids[0] == haystack.begin for length, one in made.items())
        for length in (40, 90):
            np.testing.assert_array_equal(made[length].ids[1:], made[200].ids[-length + 1 :])
        text = haystack.decode(made[200].ids[1:]).strip("\ufffd")
        (number,) = [n for n, document in enumerate(haystack.documents) if text in document.text + "\n"]
        assert {one.document for one in made.values()} == {number}


def test_too_short_a_context_or_document_is_told_in_a_line(haystack):
    with pytest.raises(EvaluationError, match=r"passage must be at most 31 tokens to stand twice .* of 64, got 32"):
        make_repetition(haystack, LongContextConfig(passage=32), 64, 0.5, 0)
    with pytest.raises(EvaluationError, match="documents must have 99,999 tokens or more for their loss"):
        make_ending(haystack, LongContextConfig(lengths=(100_000,)), 100_000, 0)
    with pytest.raises(EvaluationError, match="passage must be shorter than a context of 32"):
        make_ending(haystack, LongContextConfig(lengths=(32,)), 32, 0)
