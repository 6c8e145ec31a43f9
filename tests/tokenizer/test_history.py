import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tokenizer import Tokenizer, TokenizerError, extend
from tokenizer.measures.history import history
from tokenizer.measures.inspection import Inspector
from tokenizer.measures.probabilities import probabilities


def test_history_is_what_the_file_of_merges_says(small_tokenizer, tmp_path):
    small_tokenizer.save(tmp_path / "tokenizer")
    table = pq.read_table(tmp_path / "tokenizer" / "merges.parquet")
    made = history(Tokenizer.load(tmp_path / "tokenizer"))
    assert made.numbers.tolist() == list(range(len(table)))
    for name in ("frequency", "repositories", "languages"):
        assert getattr(made, name).tolist() == table[name].to_pylist()


def test_what_is_not_known_of_merges_shows_as_nothing(small_tokenizer):
    imported = Tokenizer(small_tokenizer.pairs, list(small_tokenizer.special_tokens))
    extended = extend(imported, [("zq zq zq xk xk", "r", "x")], num_merges=2)
    made = history(extended)
    assert made.numbers.tolist() == [len(imported.pairs), len(imported.pairs) + 1]
    assert made.frequency.tolist() == [3, 2]
    inspector = Inspector(extended)
    old, new = (inspector.describe(extended.ids[256 + merge]) for merge in (0, len(imported.pairs)))
    assert (old.frequency, old.repositories, old.languages) == (None, None, None)
    assert (new.frequency, new.repositories, new.languages) == (3, 1, 1)


def test_history_of_a_tokenizer_that_knows_none_is_refused(small_tokenizer):
    with pytest.raises(TokenizerError, match="tokenizer must know F, R, L of its merges, got one without") as caught:
        history(Tokenizer(small_tokenizer.pairs))
    assert "\n" not in str(caught.value)


@given(arrays(np.int64, st.integers(1, 20), elements=st.integers(0, 10**6)))
def test_probabilities_fall_sum_to_one_and_leave_out_what_never_occurs(counts):
    if not counts.any():
        with pytest.raises(TokenizerError, match="must hold some text"):
            probabilities(counts)
        return
    found = probabilities(counts)
    assert found.tolist() == sorted((count / counts.sum() for count in counts if count), reverse=True)
    assert found.sum() == pytest.approx(1, abs=1e-12)
