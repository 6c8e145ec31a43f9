import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dataservice.config import DataConfig
from dataservice.decomposition import decompose
from dataservice.pieces import PiecedRows, num_rows
from dataservice.sequences import count_by_table
from dataservice.store import length_powers


def cut_one_document(inputs: int, min_length: int, max_length: int) -> tuple[list[tuple[int, int]], int]:
    """Greedy reference: (offset, length) of the chunks from the head, and what is left."""
    chunks, offset, length = [], 0, max_length
    while length >= min_length:
        if inputs - offset >= length:
            chunks.append((offset, length))
            offset += length
        else:
            length //= 2
    return chunks, inputs - offset


lengths_of_documents = st.lists(st.integers(1, 200), max_size=30)


@given(lengths_of_documents, st.integers(0, 3), st.integers(0, 3))
def test_chunks_are_those_of_greedy_cutting_in_document_order(lengths, min_power, extra):
    min_length, max_length = 2**min_power, 2 ** (min_power + extra)
    documents = np.cumsum([7, *lengths])
    expected: dict[int, list[int]] = {2**power: [] for power in range(min_power, min_power + extra + 1)}
    tails = []
    for position, inputs in zip(documents.tolist(), lengths, strict=False):
        chunks, left = cut_one_document(inputs, min_length, max_length)
        for offset, length in chunks:
            expected[length].append(position + offset)
        tails += [(position + inputs - left, left)] * (left > 0)
    *plain, packed = decompose(documents, min_length, max_length, packs=True)
    chunks_by_length = [expected[length] for length in sorted(expected)[::-1]]
    assert [np.asarray(starts).tolist() for starts in plain] == chunks_by_length
    assert isinstance(packed, PiecedRows)
    assert sorted(zip(packed.starts.tolist(), packed.lengths.tolist(), strict=True)) == sorted(tails)
    without = decompose(documents, min_length, max_length, packs=False)
    assert [np.asarray(starts).tolist() for starts in without] == chunks_by_length


@given(lengths_of_documents)
def test_every_input_lies_in_exactly_one_row(lengths):
    documents = np.cumsum([0, *lengths])
    *plain, packed = decompose(documents, 4, 16, packs=True)
    assert isinstance(packed, PiecedRows)
    covered = np.zeros(documents[-1], dtype=int)
    for length, starts in zip((16, 8, 4), plain, strict=True):
        for start in np.asarray(starts):
            covered[start : start + length] += 1
    for start, length in zip(packed.starts, packed.lengths, strict=True):
        covered[start : start + length] += 1
    assert (covered == 1).all()


@given(lengths_of_documents)
def test_the_table_of_shards_knows_the_rows_of_every_length(lengths):
    config = DataConfig(min_length=4, max_length=16, tokens_per_step=16, tails="drop")
    digits, multiples = length_powers(np.array(lengths, dtype=np.int64))
    rows = decompose(np.cumsum([0, *lengths]), 4, 16, packs=False)
    counted = count_by_table(digits[None], multiples[None], config)
    assert counted[:, 0].tolist() == [len(np.asarray(starts)) for starts in rows]


def test_a_shard_without_documents_has_no_rows():
    assert [num_rows(rows) for rows in decompose(np.array([0]), 4, 16, packs=True)] == [0, 0, 0, 0]
