from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.encoding import word_encoding
from tokenizer.encoding.pair_ranks import NO_RANK, PairRanks
from tokenizer.ragged import offsets_of, take_rows


def merge_one_by_one(word: bytes, ranks: dict[tuple[int, int], int]) -> list[int]:
    """The textbook algorithm: again and again, the pair of lowest rank, from left to right."""
    symbols = list(word)
    while True:
        found = [ranks[pair] for pair in pairwise(symbols) if pair in ranks]
        if not found:
            return symbols
        rank, merged = min(found), []
        while symbols:
            if ranks.get(tuple(symbols[:2])) == rank:  # type: ignore[call-overload]
                merged.append(256 + rank)
                del symbols[:2]
            else:
                merged.append(symbols.pop(0))
        symbols = merged


@st.composite
def merge_lists(draw):
    """Different pairs of bytes a-d and earlier merges, also ones that spell the same bytes."""
    tokens = list(b"abcd"[: draw(st.integers(1, 4))])
    pairs: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(0, 14))):
        pair = draw(st.tuples(st.sampled_from(tokens), st.sampled_from(tokens)))
        if pair not in pairs:
            pairs.append(pair)
            tokens.append(255 + len(pairs))
    return pairs


@given(
    merge_lists(),
    st.lists(st.text("abcd", min_size=1, max_size=30), max_size=8),
    st.sampled_from([0, 7, 256]),
    st.sampled_from([0, 4, 1000]),
    st.sampled_from([1, 3, 1000]),
)
def test_words_encode_as_one_merge_at_a_time_does(pairs, words, long_word, few_words, words_at_once):
    words = [word.encode() for word in words]
    data = np.frombuffer(b"".join(words), np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_encoding, "LONG_WORD", long_word)  # so that both algorithms are tried
        patch.setattr(word_encoding, "FEW_WORDS", few_words)
        patch.setattr(word_encoding, "WORDS_AT_ONCE", words_at_once)
        ids, offsets = word_encoding.encode_words(
            data, offsets_of(np.array([len(word) for word in words], int)), PairRanks(np.array(pairs))
        )
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    encoded = [ids[start:end].tolist() for start, end in pairwise(offsets)]
    assert encoded == [merge_one_by_one(word, ranks) for word in words]


@given(st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 60_000)), unique=True, max_size=300))
def test_ranks_are_found_for_merges_and_for_nothing_else(pairs):
    ranks = PairRanks(np.array(pairs))
    known = np.array(pairs, np.int64).reshape(-1, 2)
    assert ranks.find(known[:, 0], known[:, 1]).tolist() == list(range(len(pairs)))
    swapped = [pair[::-1] for pair in pairs if pair[::-1] not in pairs]
    strange = np.array(swapped, np.int64).reshape(-1, 2)
    assert (ranks.find(strange[:, 0], strange[:, 1]) == NO_RANK).all()


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=8), st.data())
def test_rows_are_taken_in_the_order_asked(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10))
    offsets = offsets_of(np.array([len(row) for row in rows]))
    values, bounds = take_rows(np.array(list(chain.from_iterable(rows)), int), offsets, np.array(chosen, int))
    taken = [values[start:end].tolist() for start, end in pairwise(bounds)]
    assert taken == [rows[row] for row in chosen]
