import math

import numpy as np

from dataservice.hashing import derive_key, exponentials, hash64


def splitmix64(value: int) -> int:
    """The reference in Python integers (Steele, Lea and Flood 2014)."""
    mask = 2**64 - 1
    mixed = (value + 0x9E3779B97F4A7C15) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return mixed ^ (mixed >> 31)


def test_hashes_are_those_of_the_reference():
    values = [0, 1, 2**63, 2**64 - 1, 123456789]
    for key in (0, 2**64 - 1, 77):
        expected = [splitmix64(value ^ key) for value in values]
        assert hash64(np.array(values, dtype=np.uint64), key).tolist() == expected


def test_exponentials_are_minus_the_logarithm_of_the_hash():
    expected = [-math.log(((splitmix64(index ^ 9) >> 11) + 0.5) / 2**53) for index in range(2_000)]
    np.testing.assert_allclose(exponentials(2_000, 9), expected, rtol=1e-14)


def test_keys_differ_in_every_part():
    parts = [(0, "a"), (0, "b"), (1, "a"), (0, "a", 0), (0, "a", 1), (0, "a", 0, 1), (0, "a", 1, 0), (0, "a", 10)]
    assert len({derive_key(seed, purpose, *rest) for seed, purpose, *rest in parts}) == len(parts)
