import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer.counting import word_batches
from tokenizer.counting.word_batches import WordBatch
from tokenizer.counting.words import WordTable

# Short words are their own keys, longer ones are hashed by chunks of 8 bytes, those over 64 bytes by BLAKE2.
WORDS = st.one_of(
    st.binary(min_size=1, max_size=3),
    st.text("ab\0", min_size=1, max_size=20).map(str.encode),
    st.sampled_from([7, 8, 9, 15, 16, 17, 63, 64, 65, 200]).map(lambda size: b"x" * size),
    st.sampled_from([8, 16, 64, 65, 200]).map(lambda size: b"x" * (size - 1) + b"y"),
)


def joined(words):
    return np.frombuffer(b"".join(words), np.uint8), np.cumsum([0, *map(len, words)], dtype=np.int64)


def stored(table):
    data = table.data.tobytes()
    return [data[a:b] for a, b in zip(table.offsets[:-1], table.offsets[1:], strict=True)]


@settings(deadline=None)
@given(st.lists(st.lists(WORDS, max_size=30), max_size=8))
def test_numbers_follow_the_first_occurrence(batches):
    table, reference = WordTable(), {}
    for batch in batches:
        expected = [reference.setdefault(word, len(reference)) for word in batch]
        assert table.identify(*joined(batch)).tolist() == expected
    assert table.size == len(reference)
    assert stored(table) == list(reference)


def test_a_growing_table_still_knows_its_words():
    batch = [str(number).encode() for number in range(20_000)]
    table = WordTable()
    assert table.identify(*joined(batch)).tolist() == list(range(20_000))
    assert table.identify(*joined(batch[::-1])).tolist() == list(range(20_000))[::-1]


@pytest.mark.parametrize("bits", [0, 2])
def test_words_with_equal_hashes_are_told_apart_and_keep_their_order(monkeypatch, bits):
    def poor_hash(padded, heads, lengths, firsts, lasts):
        return lengths.astype(np.uint64) & np.uint64((1 << bits) - 1)

    monkeypatch.setattr(word_batches, "_hash", poor_hash)
    batch = [f"a long word {number % 50 // 2}{'s' * (number % 2)}, {number % 5}".encode() for number in range(400)]
    table, reference = WordTable(), {}
    for part in (batch[:150], batch[150:]):
        expected = [reference.setdefault(word, len(reference)) for word in part]
        assert table.identify(*joined(part)).tolist() == expected
    assert stored(table) == list(reference)


def test_longer_words_that_start_with_a_lesser_byte_have_other_hashes():
    batch = [b"#" * 32 + b"\n", b" " + b"#" * 32 + b"\n"]
    keys = WordBatch.make(*joined(batch)).keys
    assert keys[0] != keys[1]
