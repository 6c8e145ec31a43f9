"""What a run asks of its data: where the store is, how rows are cut, and in which order they come."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from dataservice.errors import DataError

__all__ = ["CURRICULA", "MIXTURES", "SEQUENCES", "DataConfig", "SequenceKind"]

SequenceKind = Literal["decomposed", "concatenated", "concatenated-masked", "packed", "grow-length"]
SEQUENCES: tuple[SequenceKind, ...] = get_args(SequenceKind)
CURRICULA = ("uniform", "grow-linear", "grow-p2", "grow-p100", "shrink-linear", "shrink-p2", "shrink-p100")

_LARGEST_LENGTH = 1 << 30
MIXTURES = {
    "equal": (1, _LARGEST_LENGTH),
    "1k-only": (1024, 1024),
    "up-to-2k": (1, 2048),
    "256-and-up": (256, _LARGEST_LENGTH),
    "256-to-2k": (256, 2048),
}
"""The shortest and the longest length of each mixture that takes as many tokens of every length."""

_LARGEST_STEP = 1 << 40


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Settings of the data service; wrong ones raise `DataError` that says how to mend them."""

    store: str | dict[str, float] | None = None
    """A prepared token store (python -m dataservice prepare): its folder, its URL (s3://, gs://, https://, ...), or
    servers of it, grpc://HOST:PORT[,HOST:PORT...] or grpc+tls://...; null: made from the corpus and cached. Or several,
    each with its share of the tokens, as {STORE: weight}: an epoch passes once through the store that lasts longest,
    and through the others as often as that takes."""

    cache: str = "cache"
    """Folder in which stores made from a corpus are kept, by digest, and what is read of stores elsewhere."""

    cache_bytes: int = 1 << 36
    """Most bytes to keep of the shards of stores elsewhere; those used least recently are removed."""

    token_file: str | None = None
    """File with the token that servers of the store ask for; null: the environment variable DYADLM_TOKEN."""

    root_certificates: str | None = None
    """File with the certificates (PEM) of who vouches for servers with TLS; null: those that the system trusts."""

    workers: int = 0
    """Processes that turn documents into tokens; 0: one per core."""

    executor: Literal["local", "ray"] = "local"
    """Who turns documents into tokens: processes of this machine, or tasks of Ray (pip install 'dyadlm[ray]')."""

    window_shards: int = 0
    """Shards in a window: rows are shuffled within a window, and training starts when the first one is ready.
    0: the whole store is one window."""

    ahead_windows: int = 0
    """Windows that are prepared ahead of the one in training, when documents are prepared while training goes on;
    0: no bound. With a bound, train.num_steps must say where to stop, since the end is not known."""

    sequences: SequenceKind = "decomposed"
    """How documents become rows. decomposed: powers of two, so that no row joins two documents. The others are rivals
    to measure it against. concatenated: a shard's documents joined in random order and cut into rows of max_length
    wherever that falls; concatenated-masked: the same, but attention stays within a document; packed: documents cut
    at max_length and packed by best-fit decreasing into rows of max_length, attention within each; grow-length:
    concatenated, equal shares of tokens in rows of every length, shorter rows first."""

    min_length: int = 64
    """Shortest row, in tokens; a power of two. Of no effect where all rows have max_length: concatenated,
    concatenated-masked and packed."""

    max_length: int = 8192
    """Longest row, in tokens; a power of two."""

    tails: Literal["pack", "drop"] = "pack"
    """What happens to the ends of documents that are shorter than min_length: packed together into rows of
    min_length with segments, or left out. Of concatenated documents, the end of a shard that is shorter than the
    shortest row: filled up with padding, or left out. Sequences that are packed have none."""

    tokens_per_step: int = 65536
    """Tokens in every batch, whatever the length of its rows; a power of two."""

    mixture: str | dict[int, int] = "natural"
    """Tokens to take from the rows of each length in an epoch, as {length: tokens}; lengths not named give none.
    natural: every row exactly once. equal: as many tokens of every length, as many as the scarcest has; 1k-only,
    up-to-2k, 256-and-up, 256-to-2k: the same of these lengths alone. Tails packed into rows of min_length count as
    rows of that length."""

    curriculum: str | tuple[float, ...] = "uniform"
    """Odds of drawing each length: uniform, grow-linear, grow-p2, grow-p100 (short rows first), shrink-linear,
    shrink-p2, shrink-p100 (long rows first), or a list of odds, shortest length first. Of sequences that are not
    decomposed, batches of a length come in an order that prefers none, and grow-length goes from length to length."""

    odds_times: Literal["none", "batches"] = "none"
    """What the odds are multiplied by. none: nothing (Algorithm 1 of the paper); batches: the number of batches
    of that length in the cycle (its released code)."""

    step_seconds: dict[int, float] | None = None
    """Measured seconds of a step of each length, as {length: seconds}: odds are divided by them, so that they are odds
    of the time that a length takes. null: odds are those of its steps."""

    warmup_curriculum: str | tuple[float, ...] | None = None
    """Curriculum of the first cycle of a run, as in curriculum; null: none of its own."""

    cooldown_curriculum: str | tuple[float, ...] | None = None
    """Curriculum of the last cycle of every epoch, as in curriculum; null: none of its own."""

    cycles: int = 1
    """Times that the curriculum runs over each window."""

    seed: int = 0
    """Seed of the order of rows and steps."""

    prefetch: int = 2
    """Batches made ahead by a thread; 0: none."""

    epochs: int = 1
    """Passes over the store after which the data ends."""

    def __post_init__(self) -> None:
        for name, least in (
            ("workers", 0),
            ("window_shards", 0),
            ("ahead_windows", 0),
            ("cycles", 1),
            ("prefetch", 0),
            ("epochs", 1),
        ):
            _check_integer(name, getattr(self, name), least)
        if isinstance(self.store, dict):
            _check_weights(self.store)
        _check_integer("cache_bytes", self.cache_bytes, 1)
        _check_integer("seed", self.seed, 0, (1 << 63) - 1)
        _check_choice("sequences", self.sequences, SEQUENCES)
        _check_choice("executor", self.executor, ("local", "ray"))
        _check_choice("tails", self.tails, ("pack", "drop"))
        _check_choice("odds_times", self.odds_times, ("none", "batches"))
        _check_power("min_length", self.min_length, 1, _LARGEST_LENGTH)
        _check_power("max_length", self.max_length, 1 if self.has_one_length else self.min_length, _LARGEST_LENGTH)
        _check_power("tokens_per_step", self.tokens_per_step, self.max_length, _LARGEST_STEP)
        object.__setattr__(self, "mixture", _checked_mixture(self.mixture, self.lengths))
        for name in ("curriculum", "warmup_curriculum", "cooldown_curriculum"):
            if name == "curriculum" or getattr(self, name) is not None:
                object.__setattr__(self, name, _checked_curriculum(name, getattr(self, name), self))
        if self.step_seconds is not None:
            object.__setattr__(self, "step_seconds", _checked_seconds(self.step_seconds, self))

    def for_sequences(self, kind: SequenceKind) -> "DataConfig":
        """These settings for another kind of sequences: every row once, and no odds, which are for certain lengths."""
        return replace(
            self,
            sequences=kind,
            min_length=min(self.min_length, self.max_length),
            mixture="natural",
            curriculum="uniform",
            step_seconds=None,
            warmup_curriculum=None,
            cooldown_curriculum=None,
        )

    @property
    def has_one_length(self) -> bool:
        """Whether all rows have max_length."""
        return self.sequences in ("concatenated", "concatenated-masked", "packed")

    @property
    def lengths(self) -> tuple[int, ...]:
        """Row lengths in tokens, shortest first."""
        if self.has_one_length:
            return (self.max_length,)
        first, last = self.min_length.bit_length() - 1, self.max_length.bit_length() - 1
        return tuple(1 << power for power in range(first, last + 1))


def _check_integer(name: str, value: object, least: int, most: int | None = None) -> None:
    bounds = f"at least {least}" if most is None else f"from {least} to {most}"
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        raise DataError(f"data.{name} must be a whole number {bounds}, got {value!r}; set data.{name}={least}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise DataError(f"data.{name} must be one of {', '.join(choices)}, got {value!r}; set data.{name}={choices[0]}")


def _check_power(name: str, value: object, least: int, most: int) -> None:
    _check_integer(name, value, 1)
    assert isinstance(value, int)
    if value & (value - 1) or not least <= value <= most:
        below = 1 << (value.bit_length() - 1)
        nearest = below if value - below <= 2 * below - value else 2 * below
        nearest = min(max(nearest, least), most)
        wanted = f"a power of two from {least} to {most}"
        raise DataError(f"data.{name} must be {wanted}, got {value}; the nearest is data.{name}={nearest}")


def _check_weights(stores: dict[str, float]) -> None:
    for place, weight in stores.items():
        if not 0 < weight < math.inf:
            raise DataError(f"data.store[{place}] must be a weight above 0, got {weight}; leave the store out")
    if not stores:
        raise DataError("data.store must name a store or more, got {}; set data.store=STORE")


def _checked_mixture(mixture: object, lengths: tuple[int, ...]) -> str | dict[int, int]:
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
            raise DataError(f"data.mixture must name lengths among {known}, got {length!r}; set data.max_length")
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
            raise DataError(f"data.mixture[{length}] must be a number of tokens, got {tokens!r}; 0 takes none")
    if not any(mixture.values()):
        raise DataError("data.mixture must take some tokens, got none; set data.mixture=natural")
    return dict(sorted(mixture.items()))


def _checked_curriculum(setting: str, value: object, config: DataConfig) -> str | tuple[float, ...]:
    """Return a known name or a tuple of positive odds, one for each length if they are used, or raise."""
    if isinstance(value, str):
        _check_choice(setting, value, CURRICULA)
        return value
    lengths, is_used = config.lengths, config.sequences == "decomposed"
    if not isinstance(value, Sequence) or (is_used and len(value) != len(lengths)):
        expected = f"a name or {len(lengths)} odds (lengths {lengths[0]} to {lengths[-1]})"
        raise DataError(f"data.{setting} must be {expected}, got {value!r}; set data.{setting}=uniform")
    for odds in value:
        if not _is_positive(odds):
            raise DataError(f"data.{setting} must hold odds above 0, got {odds!r}; set data.{setting}=uniform")
    return tuple(float(odds) for odds in value)


def _checked_seconds(seconds: dict[int, float], config: DataConfig) -> dict[int, float]:
    """Return `seconds` with lengths in order, or raise: each length of a row must have some, if they are used."""
    missing = set(config.lengths) ^ set(seconds) if config.sequences == "decomposed" else set()
    if missing:
        known = ", ".join(map(str, config.lengths))
        raise DataError(f"data.step_seconds must name the lengths {known}, got {seconds}; set data.step_seconds=null")
    for length, value in seconds.items():
        if not _is_positive(value):
            raise DataError(f"data.step_seconds[{length}] must be above 0, got {value!r}; measure it again")
    return {length: float(seconds[length]) for length in sorted(seconds)}


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
