import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dataservice.packing import pack


def pack_one_by_one(lengths: list[int], capacity: int) -> list[list[int]]:
    """Best-fit decreasing, a piece at a time: the lengths in each row."""
    rows: list[list[int]] = []
    for length in sorted(lengths, reverse=True):
        fitting = [row for row in rows if sum(row) + length <= capacity]
        if fitting:
            max(fitting, key=sum).append(length)
        else:
            rows.append([length])
    return rows


@given(st.lists(st.integers(1, 15), max_size=60), st.integers(15, 40))
def test_rows_are_those_of_packing_one_by_one(lengths, capacity):
    packing = pack(np.array(lengths, dtype=np.int64), capacity)
    rows = [
        np.array(lengths)[packing.pieces[first:stop]].tolist()
        for first, stop in zip(packing.offsets[:-1], packing.offsets[1:], strict=True)
    ]
    # Rows that are equally full are interchangeable, and so are pieces that are equally long.
    assert sorted(map(sum, rows)) == sorted(map(sum, pack_one_by_one(lengths, capacity)))
    assert len(rows) == len(pack_one_by_one(lengths, capacity))
    assert all(0 < sum(row) <= capacity for row in rows)
    assert sorted(packing.pieces.tolist()) == list(range(len(lengths)))


def test_many_tails_fill_their_rows():
    lengths = np.random.default_rng(0).integers(1, 64, 100_000)
    assert lengths.sum() / (64 * (len(pack(lengths, 64).offsets) - 1)) > 0.998
