from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer import Tokenizer, TokenizerError
from tokenizer.encoding.dropout import make_dropout

PAIRS = np.array([[97, 98], [97, 97], [256, 97], [257, 256], [258, 99], [99, 99]])


def merge_one_by_one(word, probability, seed, text_number):
    """Algorithm 1 of the paper: draw for every pair, merge the best of those offered, again while there is one."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(PAIRS.tolist())}
    symbols = list(word)
    chances = make_dropout(probability, seed, np.array([0, len(word)]), text_number)
    places = list(range(len(word)))  # of the first byte of each symbol
    for number in range(len(word)):
        is_out = chances.drop(np.zeros(len(word), np.int32), number) != 0
        offered = [
            (ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks and not is_out[places[at]]
        ]
        if not offered:
            break
        best, at = min(offered)
        symbols[at : at + 2] = [256 + best]
        del places[at + 1]
    return symbols


@settings(deadline=None)
@given(st.lists(st.text("abc", max_size=20), max_size=4), st.sampled_from([0.1, 0.5, 0.9]), st.integers(-5, 5))
def test_dropout_merges_as_one_by_one(texts, probability, seed):
    ids, offsets = Tokenizer(PAIRS, pattern="none").encode_batch(texts, dropout=probability, seed=seed)
    for number, text in enumerate(texts):
        expected = merge_one_by_one(text.encode(), probability, seed, number)
        assert ids[offsets[number] : offsets[number + 1]].tolist() == expected


def test_dropout_of_0_and_1_are_encoding_and_bytes(small_tokenizer, documents):
    texts = [document.text for document in documents]
    assert np.array_equal(small_tokenizer.encode_batch(texts, dropout=0.0)[0], small_tokenizer.encode_batch(texts)[0])
    short = [text for text in texts if "a" * 257 not in text]
    assert small_tokenizer.encode_batch(short, dropout=1.0)[0].tolist() == list("".join(short).encode())


def test_dropout_decodes_and_depends_on_seed_number_and_place_alone(small_tokenizer, documents):
    texts = [document.text for document in documents]
    ids, offsets = small_tokenizer.encode_batch(texts, dropout=0.3, seed=1)
    assert small_tokenizer.decode(ids) == "".join(texts)
    assert len(ids) > len(small_tokenizer.encode_batch(texts)[0])
    alone, _ = small_tokenizer.encode_batch(["", texts[1]], dropout=0.3, seed=1)
    assert alone.tolist() == ids[offsets[1] : offsets[2]].tolist()
    assert ids.tolist() != small_tokenizer.encode_batch(texts, dropout=0.3, seed=2)[0].tolist()


def test_dropout_takes_a_share_of_the_merges(small_tokenizer):
    """A word of two letters that one merge joins stays in two with the probability of dropout."""
    left, right = small_tokenizer.pairs[0].tolist()
    ids, _ = small_tokenizer.encode_batch([bytes([left, right]).decode()] * 20_000, dropout=0.25, seed=3)
    share = (ids != 256).sum() / 2 / 20_000
    assert abs(share - 0.25) < 5 * (0.25 * 0.75 / 20_000) ** 0.5


@pytest.mark.parametrize("dropout", [-0.1, 1.5, float("nan")])
def test_dropout_out_of_range_is_refused(small_tokenizer, dropout):
    with pytest.raises(TokenizerError, match="dropout must be from 0 to 1"):
        small_tokenizer.encode_batch(["a"], dropout=dropout)
