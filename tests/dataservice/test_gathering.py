import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataservice.store.gathering import gather_pieces, gather_rows

SHARDS = [np.arange(first, first + size, dtype="<u2") for first, size in ((0, 700), (1000, 300), (2000, 1))]


@given(st.data(), st.integers(1, 300))
def test_rows_are_slices_of_their_shards(data, width):
    places = [(shard, start) for shard in (0, 1) for start in (0, 1, len(SHARDS[shard]) - width)]
    chosen = data.draw(st.lists(st.sampled_from(places)))
    shards, starts = np.array(chosen, np.int64).reshape(-1, 2).clip(0).T
    rows = gather_rows(SHARDS.__getitem__, np.dtype("<u2"), shards, starts, width)
    assert rows.shape == (len(chosen), width) and rows.dtype == np.dtype("<u2")
    for row, shard, start in zip(rows, shards, starts, strict=True):
        np.testing.assert_array_equal(row, SHARDS[shard][start : start + width])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 699), st.integers(0, 699)), max_size=8))
def test_pieces_are_slices_one_after_the_other(chosen):
    clipped = [(shard, min(a, b, len(SHARDS[shard])), min(max(a, b), len(SHARDS[shard]))) for shard, a, b in chosen]
    shards, starts, ends = np.array(clipped, np.int64).reshape(-1, 3).T
    joined = gather_pieces(SHARDS.__getitem__, np.dtype("<u2"), shards, starts, ends - starts)
    expected = [SHARDS[shard][start:end] for shard, start, end in clipped]
    np.testing.assert_array_equal(joined, np.concatenate([*expected, np.zeros(0, "<u2")]))


@pytest.mark.parametrize("start", [-1, 298, 10**12])
def test_what_is_not_in_a_shard_is_refused(start):
    shards, starts = np.array([0, 1]), np.array([0, start])
    with pytest.raises(IndexError):
        gather_rows(SHARDS.__getitem__, np.dtype("<u2"), shards, starts, 3)
    with pytest.raises(IndexError):
        gather_pieces(SHARDS.__getitem__, np.dtype("<u2"), shards, starts, np.array([3, 3]))
    with pytest.raises(IndexError):
        gather_rows(SHARDS.__getitem__, np.dtype("<u2"), np.array([2]), np.array([0]), 2)
    with pytest.raises(IndexError):
        gather_pieces(SHARDS.__getitem__, np.dtype("<u2"), shards[:1], starts[:1], np.array([-1]))
