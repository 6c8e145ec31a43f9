import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataservice.store.gathering import gather_pairs, gather_pieces, gather_rows
from dataservice.store.span import Span

SHARDS = [np.arange(first, first + size, dtype="<u2") for first, size in ((0, 700), (1000, 300), (2000, 1))]


def locate(shards, starts, lengths, limit=4):
    return Span(SHARDS.__getitem__, np.dtype("<u2"), limit).locate(np.asarray(shards), np.asarray(starts), lengths)


@given(st.data(), st.integers(1, 300))
def test_rows_are_slices_of_their_shards(data, width):
    places = [(shard, len(SHARDS[shard]) - width - before) for shard in (0, 1) for before in (0, (300 - width) // 2)]
    chosen = data.draw(st.lists(st.sampled_from(places)))
    shards, starts = np.array(chosen, np.int64).reshape(-1, 2).clip(0).T
    rows = gather_rows(*locate(shards, starts, width), width)
    assert rows.shape == (len(chosen), width) and rows.dtype == np.dtype("<u2")
    for row, shard, start in zip(rows, shards, starts, strict=True):
        np.testing.assert_array_equal(row, SHARDS[shard][start : start + width])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 699), st.integers(0, 699)), max_size=8))
def test_pieces_are_slices_one_after_the_other(chosen):
    clipped = [(shard, min(a, b, len(SHARDS[shard])), min(max(a, b), len(SHARDS[shard]))) for shard, a, b in chosen]
    shards, starts, ends = np.array(clipped, np.int64).reshape(-1, 3).T
    joined = gather_pieces(*locate(shards, starts, ends - starts), ends - starts)
    expected = [SHARDS[shard][start:end] for shard, start, end in clipped]
    np.testing.assert_array_equal(joined, np.concatenate([*expected, np.zeros(0, "<u2")]))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 298), st.integers(1, 300)), min_size=1, max_size=8))
@pytest.mark.parametrize("least", [1, 300])
def test_targets_are_one_token_after_inputs(least, chosen):
    clipped = [(shard, start, min(max(n, least), len(SHARDS[shard]) - start - 1)) for shard, start, n in chosen]
    shards, starts, lengths = np.array(clipped, np.int64).T
    pairs = gather_pairs(*locate(shards, starts, lengths + 1), lengths)
    for array, shift in zip(pairs, (0, 1), strict=True):
        expected = [SHARDS[shard][start + shift : start + n + shift] for shard, start, n in clipped]
        np.testing.assert_array_equal(array, np.concatenate(expected))
    width = int(lengths.min())
    for rows, shift in zip(gather_pairs(*locate(shards, starts, width + 1), width), (0, 1), strict=True):
        np.testing.assert_array_equal(rows, gather_rows(*locate(shards, starts + shift, width), width))


def test_rows_longer_than_are_gathered_at_once_are_the_same():
    long = np.arange(20_000, dtype="<u4")
    rows = gather_rows(long, np.array([3, 0, 10_000]), 9_000)
    np.testing.assert_array_equal(rows, [long[start : start + 9_000] for start in (3, 0, 10_000)])


def test_a_span_opens_each_shard_once_and_keeps_no_more_than_it_may():
    opened = []
    span = Span(lambda shard: opened.append(shard) or SHARDS[shard], np.dtype("<u2"), 2)
    for shards in ([1], [1, 0], [0, 1], [0, 2], [0, 1, 2]):
        whole, places = span.locate(np.array(shards), np.zeros(len(shards), np.int64), 1)
        np.testing.assert_array_equal(whole[places], [SHARDS[shard][0] for shard in shards])
        opened.append(None)
    assert opened == [1, None, 0, None, None, 0, 2, None, 0, 1, 2, None]


@pytest.mark.parametrize("start", [-1, 298, 10**12, 2**63 - 2])
def test_what_is_not_in_a_shard_is_refused(start):
    for lengths in (3, np.array([3, 3])):
        with pytest.raises(IndexError):
            locate([0, 1], [0, start], lengths)
    with pytest.raises(IndexError):
        locate([2], [0], 2)
    for length in (-1, 2**63 - 1):
        with pytest.raises(IndexError):
            locate([0], [1], np.array([length]))
