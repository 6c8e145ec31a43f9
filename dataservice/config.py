"""What a run asks of its data: where the store is, how rows are cut, and in which order they come."""

from dataclasses import dataclass, replace
from typing import Literal

from dataservice.choices import (
    LARGEST_LENGTH,
    LARGEST_STEP,
    SEQUENCES,
    SequenceKind,
    check_choice,
    check_integer,
    check_power,
    check_weights,
    checked_curriculum,
    checked_mixture,
    checked_seconds,
)
from dataservice.errors import DataError

__all__ = ["SEQUENCES", "DataConfig", "SequenceKind"]


MOST_CYCLES = 1 << 16
"""What is known of every cycle of a window is held in memory."""


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

    keep_windows: int | None = None
    """Windows that stay on disk behind the oldest checkpoint, when documents are prepared while training goes on; those
    before them are removed, but for shards of which rows are still to come. null: all stay. With a number the store is
    the run's own (in its folder), and needs window_shards, ahead_windows and one epoch."""

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
            ("prefetch", 0),
            ("epochs", 1),
        ):
            check_integer(name, getattr(self, name), least)
        if isinstance(self.store, dict):
            check_weights(self.store)
        check_integer("cycles", self.cycles, 1, MOST_CYCLES)
        check_integer("cache_bytes", self.cache_bytes, 1)
        check_integer("seed", self.seed, 0, (1 << 63) - 1)
        check_choice("sequences", self.sequences, SEQUENCES)
        check_choice("executor", self.executor, ("local", "ray"))
        check_choice("tails", self.tails, ("pack", "drop"))
        check_choice("odds_times", self.odds_times, ("none", "batches"))
        check_power("min_length", self.min_length, 1, LARGEST_LENGTH)
        check_power("max_length", self.max_length, 1 if self.has_one_length else self.min_length, LARGEST_LENGTH)
        check_power("tokens_per_step", self.tokens_per_step, self.max_length, LARGEST_STEP)
        object.__setattr__(self, "mixture", checked_mixture(self.mixture, self.lengths))
        is_used = self.sequences == "decomposed"
        for name in ("curriculum", "warmup_curriculum", "cooldown_curriculum"):
            if name == "curriculum" or getattr(self, name) is not None:
                checked = checked_curriculum(name, getattr(self, name), self.lengths, is_used=is_used)
                object.__setattr__(self, name, checked)
        if self.step_seconds is not None:
            seconds = checked_seconds(self.step_seconds, self.lengths, is_used=is_used)
            object.__setattr__(self, "step_seconds", seconds)
        if self.keep_windows is not None:
            check_integer("keep_windows", self.keep_windows, 0)
            self._check_bounds_of_disk()

    def _check_bounds_of_disk(self) -> None:
        """Refuse what would read a window again, or would prepare all of them in advance."""
        for name, is_right, wanted in (
            ("store", self.store is None, "null: only what is made for a run is taken away behind it"),
            ("window_shards", self.window_shards > 0, "1 or more"),
            ("ahead_windows", self.ahead_windows > 0, "1 or more"),
            ("epochs", self.epochs == 1, "1"),
            ("mixture", self.mixture == "natural", "natural"),
        ):
            if not is_right:
                raise DataError(
                    f"data.{name} must be {wanted} with data.keep_windows, got {getattr(self, name)}; "
                    "mend it or set data.keep_windows=null"
                )

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
