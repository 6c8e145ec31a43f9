"""What a setting of the data service may be, and the line that says so where it is something else."""

import math
from collections.abc import Sequence
from typing import Literal, get_args

from dataservice.errors import DataError

__all__ = [
    "CURRICULA",
    "LARGEST_LENGTH",
    "LARGEST_STEP",
    "MIXTURES",
    "SEQUENCES",
    "SequenceKind",
    "check_choice",
    "check_integer",
    "check_power",
    "check_weights",
    "checked_curriculum",
    "checked_mixture",
    "checked_seconds",
]

SequenceKind = Literal["decomposed", "concatenated", "concatenated-masked", "packed", "grow-length"]
SEQUENCES: tuple[SequenceKind, ...] = get_args(SequenceKind)
CURRICULA = ("uniform", "grow-linear", "grow-p2", "grow-p100", "shrink-linear", "shrink-p2", "shrink-p100")

LARGEST_LENGTH = 1 << 30
LARGEST_STEP = 1 << 40
MIXTURES = {
    "equal": (1, LARGEST_LENGTH),
    "1k-only": (1024, 1024),
    "up-to-2k": (1, 2048),
    "256-and-up": (256, LARGEST_LENGTH),
    "256-to-2k": (256, 2048),
}
"""The shortest and the longest length of each mixture that takes as many tokens of every length."""


def check_integer(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number in a range."""
    bounds = f"at least {least}" if most is None else f"from {least} to {most}"
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        raise DataError(f"data.{name} must be a whole number {bounds}, got {value!r}; set data.{name}={least}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a name that is none of the choices."""
    if value not in choices:
        raise DataError(f"data.{name} must be one of {', '.join(choices)}, got {value!r}; set data.{name}={choices[0]}")


def check_power(name: str, value: object, least: int, most: int) -> None:
    """Refuse what is no power of two in a range, and name the nearest."""
    check_integer(name, value, 1)
    assert isinstance(value, int)
    if value & (value - 1) or not least <= value <= most:
        below = 1 << (value.bit_length() - 1)
        nearest = below if value - below <= 2 * below - value else 2 * below
        nearest = min(max(nearest, least), most)
        wanted = f"a power of two from {least} to {most}"
        raise DataError(f"data.{name} must be {wanted}, got {value}; the nearest is data.{name}={nearest}")


def check_weights(stores: dict[str, float]) -> None:
    """Refuse a mixture of stores with a weight that is not positive, or of none."""
    for place, weight in stores.items():
        if not 0 < weight < math.inf:
            raise DataError(f"data.store[{place}] must be a weight above 0, got {weight}; leave the store out")
    if not stores:
        raise DataError("data.store must name a store or more, got {}; set data.store=STORE")


def checked_mixture(mixture: object, lengths: tuple[int, ...]) -> str | dict[int, int]:
    """Return `mixture` with lengths in order, or raise: {64: 4096} needs 64 to be a row length."""
    known = ", ".join(map(str, lengths))
    if mixture == "natural":
        return "natural"
    if isinstance(mixture, str) and mixture in MIXTURES:
        first, last = MIXTURES[mixture]
        if not any(first <= length <= last for length in lengths):
            raise DataError(
                f"data.mixture must have a length among {known}, got {mixture}; set data.max_length or data.min_length"
            )
        return mixture
    if not isinstance(mixture, dict):
        names = ", ".join(("natural", *MIXTURES))
        raise DataError(
            f"data.mixture must be one of {names} or {{length: tokens}}, got {mixture!r}; set data.mixture=natural"
        )
    for length, tokens in mixture.items():
        if length not in lengths:
            raise DataError(
                f"data.mixture must name lengths among {known} (data.min_length to data.max_length), got {length!r}; "
                "set data.mixture=natural, or one of these lengths"
            )
        if not isinstance(tokens, int) or isinstance(tokens, bool) or not 0 <= tokens < 1 << 62:
            raise DataError(f"data.mixture[{length}] must be a number of tokens, got {tokens!r}; 0 takes none")
    if not any(mixture.values()):
        raise DataError("data.mixture must take some tokens, got none; set data.mixture=natural")
    return dict(sorted(mixture.items()))


def checked_curriculum(
    setting: str, value: object, lengths: tuple[int, ...], *, is_used: bool
) -> str | tuple[float, ...]:
    """Return a known name or a tuple of positive odds, one for each length if they are used, or raise."""
    if isinstance(value, str):
        check_choice(setting, value, CURRICULA)
        return value
    if not isinstance(value, Sequence) or (is_used and len(value) != len(lengths)):
        expected = f"a name or {len(lengths)} odds (lengths {lengths[0]} to {lengths[-1]})"
        raise DataError(f"data.{setting} must be {expected}, got {value!r}; set data.{setting}=uniform")
    for odds in value:
        if not _is_positive(odds):
            raise DataError(f"data.{setting} must hold odds above 0, got {odds!r}; set data.{setting}=uniform")
    return tuple(float(odds) for odds in value)


def checked_seconds(seconds: dict[int, float], lengths: tuple[int, ...], *, is_used: bool) -> dict[int, float]:
    """Return `seconds` with lengths in order, or raise: each length of a row must have some, if they are used."""
    missing = set(lengths) ^ set(seconds) if is_used else set()
    if missing:
        known = ", ".join(map(str, lengths))
        raise DataError(f"data.step_seconds must name the lengths {known}, got {seconds}; set data.step_seconds=null")
    for length, value in seconds.items():
        if not _is_positive(value):
            raise DataError(f"data.step_seconds[{length}] must be above 0, got {value!r}; measure it again")
    return {length: float(seconds[length]) for length in sorted(seconds)}


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
