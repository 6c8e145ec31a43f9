from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataservice.hashing import derive_key
from dataservice.permutation import permute


@given(st.integers(0, 3_000), st.integers(0, 2**64 - 1))
def test_the_images_of_a_range_are_the_range(size, key):
    assert np.array_equal(np.sort(permute(np.arange(size), size, key)), np.arange(size))


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 100_000])
def test_larger_ranges_are_permuted_too(size):
    assert np.array_equal(np.sort(permute(np.arange(size), size, 5)), np.arange(size))


@given(st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_images_stay_in_any_range_and_do_not_depend_on_what_is_asked_with_them(size, key, data):
    indexes = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=8, unique=True)))
    images = permute(indexes, size, key)
    assert ((images >= 0) & (images < size)).all()
    assert len(set(images.tolist())) == len(indexes)
    assert [permute(index, size, key).item() for index in indexes] == images.tolist()


def test_all_orders_of_four_are_equally_likely():
    draws = 3_000
    seen = Counter(tuple(permute(np.arange(4), 4, derive_key(3, "test", draw)).tolist()) for draw in range(draws))
    expected = draws / 24
    chi_squared = sum((seen[order] - expected) ** 2 / expected for order in permutations(range(4)))
    # 23 degrees of freedom: above 50 once in a thousand seeds.
    assert chi_squared < 50


def test_neighbours_part_and_epochs_are_unlike():
    size = 20_000
    first, second = (permute(np.arange(size), size, derive_key(0, "test", epoch)) for epoch in range(2))
    for series, other in ((first[:-1], first[1:]), (first, second), (first, np.arange(size))):
        # The correlation of independent orders has a deviation of 1 / sqrt(size).
        assert abs(np.corrcoef(series, other)[0, 1]) < 4 / np.sqrt(size)
    # A row moves by a third of the range in the mean.
    assert abs(np.abs(first - np.arange(size)).mean() / size - 1 / 3) < 0.01
