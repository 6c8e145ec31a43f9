from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataservice.best_fit import best_fit
from dataservice.packing import pack


def cut_and_pack(lengths: list[int], capacity: int) -> list[list[int]]:
    """Best-fit decreasing, a piece at a time: the lengths in each row, in the order in which rows are opened."""
    pieces = []
    for length in lengths:
        pieces += [capacity] * (length // capacity) + [length % capacity] * (length % capacity > 0)
    rows: list[list[int]] = []
    for piece in sorted(pieces, reverse=True):
        fitting = [row for row in rows if sum(row) + piece <= capacity]
        if fitting:
            max(fitting, key=sum).append(piece)
        else:
            rows.append([piece])
    return rows


@given(st.lists(st.integers(1, 100), max_size=40), st.integers(0, 6))
def test_rows_are_those_of_cutting_and_packing_one_by_one(lengths, power):
    documents = np.cumsum([5, *lengths])
    rows = best_fit(documents, 2**power)
    found = [rows.lengths[first:stop].tolist() for first, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)]
    expected = cut_and_pack(lengths, 2**power)
    # Rows that are equally full are interchangeable.
    assert sorted(map(sum, found)) == sorted(map(sum, expected))
    assert sorted(rows.lengths.tolist()) == sorted(chain.from_iterable(expected))
    assert all(row == sorted(row, reverse=True) for row in found)


@given(st.lists(st.integers(1, 100), max_size=40), st.integers(0, 6))
def test_every_input_lies_in_one_piece_that_no_document_ends_within(lengths, power):
    documents = np.cumsum([5, *lengths])
    rows = best_fit(documents, 2**power)
    covered = np.zeros(documents[-1], dtype=int)
    for start, length in zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True):
        covered[start : start + length] += 1
        document = np.searchsorted(documents, start, side="right") - 1
        # A document is cut at multiples of the rows' length from its head, and nowhere else.
        assert (start - documents[document]) % 2**power == 0
        assert start + length == documents[document + 1] or length == 2**power
    assert (covered[5:] == 1).all() and not covered[:5].any()


@pytest.mark.parametrize("capacity", [64, 100, 8192])
def test_many_lengths_are_packed_as_one_by_one(capacity):
    generator = np.random.default_rng(capacity)
    lengths = np.minimum(generator.pareto(1.0, 2_000) * capacity / 20 + 1, capacity).astype(np.int64)
    packing = pack(lengths, capacity)
    fills = np.add.reduceat(lengths[packing.pieces], packing.offsets[:-1])
    assert sorted(fills.tolist()) == sorted(map(sum, cut_and_pack(lengths.tolist(), capacity)))
