"""Randomness as a function of (seed, what it is for, index): keys, hashes and exponentials."""

import hashlib

import numpy as np

__all__ = ["derive_key", "exponentials", "hash64"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476
_LOG_TERMS = 10


def derive_key(seed: int, purpose: str, *parts: int) -> int:
    """Return a 64-bit key for one use: derive_key(seed, "rows", epoch, window) never meets another purpose's."""
    text = ":".join((str(seed), purpose, *map(str, parts)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def hash64(values: np.ndarray, key: int) -> np.ndarray:
    """Return the keyed 64-bit hash of each value (the splitmix64 finaliser), uint64 of the same shape."""
    mixed = values.astype(np.uint64)
    mixed ^= np.uint64(key)
    mixed += _GOLDEN
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def exponentials(count: int, key: int) -> np.ndarray:
    """Return `count` independent exponential variates of mean 1, float64, the same bits on every machine."""
    top = hash64(np.arange(count, dtype=np.uint64), key) >> np.uint64(11)
    uniform = (top.astype(np.float64) + 0.5) * 2.0**-53
    return -_exact_log(uniform)


def _exact_log(values: np.ndarray) -> np.ndarray:
    """Return the natural logarithm from correctly rounded operations only (error under 4 ulp).

    `np.log` differs in the last place from one processor to another, and hosts must agree on the order of arrivals.
    With m in [sqrt(1/2), sqrt(2)), log(m 2^e) = e log 2 + 2 artanh((m - 1) / (m + 1)).
    """
    mantissa, exponent = np.frexp(values)
    low = mantissa < _SQRT_HALF
    mantissa = np.where(low, 2.0 * mantissa, mantissa)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = np.full_like(square, 1.0 / (2 * _LOG_TERMS + 1))
    for term in reversed(range(_LOG_TERMS)):
        series = series * square + 1.0 / (2 * term + 1)
    return (exponent - low) * _LN2 + 2.0 * ratio * series
