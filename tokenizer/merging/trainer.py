"""Training: merges made in exact batches.

One merge at a time would be the plain algorithm: take the pair of the highest priority, replace it everywhere by a new
token, count again. Consecutive merges mostly do not touch each other, so a round takes the best pairs together and
cuts the batch where the plain algorithm might do something else:

- before a pair with a position that overlaps one of an earlier pair (its F, R, L might fall);
- before a pair that does not beat every new pair born earlier in the batch, at its F when it is born.

What is left is applied in one vectorised update. The result is that of the plain algorithm, merge for merge.

R and L are counted late: they fall while a pair lives and are at most those of its parts, so every pair has an upper
bound of its priority for nothing, and only pairs whose bound reaches the top are counted. The place of a pair's first
occurrence, which breaks ties under the rule `first`, is found late for the same reason.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenizer.counting.counts import WordCounts
from tokenizer.errors import TokenizerError
from tokenizer.merging.known import known_lengths, make_text
from tokenizer.merging.pairs import PairRows, Pairs
from tokenizer.merging.priorities import make_priority, resolve_priority
from tokenizer.merging.queue import Queue
from tokenizer.merging.reserved import Reserved
from tokenizer.merging.sources import Sources
from tokenizer.merging.text import Births, Plan
from tokenizer.merging.ties import Ties
from tokenizer.progress import Progress

__all__ = ["Merges", "merge_words"]

NUM_BYTES = 256
_MAX_BYTES = 2**31 - 2  # positions are 32-bit numbers
_MIN_CANDIDATES = 4
_AHEAD = 1.5
_MAX_CANDIDATES = 4096


@dataclass(frozen=True, kw_only=True)
class Merges:
    """Merges in the order in which they were made; merge m makes token 256 + m, or that many after the last known."""

    pairs: np.ndarray
    """int32[merges, 2]: the ids of the parts."""
    frequency: np.ndarray
    """int64[merges]: F of the pair when it was merged; 0: not known, since it was made elsewhere."""
    repositories: np.ndarray
    """int64[merges]: R, likewise."""
    languages: np.ndarray
    """int64[merges]: L, likewise."""
    steps: int
    """Merges, and pairs that reached the top and were below a threshold."""


def merge_words(
    counts: WordCounts,
    *,
    num_merges: int,
    priority: str = "auto",
    min_repositories: int = 1,
    min_languages: int = 1,
    ties: str = "ids",
    max_token_length: int | None = None,
    known_pairs: np.ndarray | None = None,
    reserved: Collection[bytes] = (),
    progress: Progress | None = None,
) -> Merges:
    """Make up to `num_merges` merges; fewer when no pair of positive priority is left.

    Args:
        counts: The words.
        num_merges: Merges wanted.
        priority: One of PRIORITIES, or "auto".
        min_repositories: Pairs in fewer repositories are skipped when they reach the top, for ever.
        min_languages: The same for languages.
        ties: Which of equal priorities is first, one of TIES.
        max_token_length: Pairs that would make a longer token, in bytes, are left aside.
        known_pairs: int32[known, 2], merges to go on from: the words start as these encode them, and the result begins
            with token 256 + known. From the merges of an earlier training on the same words, it is what that training
            would have made next.
        reserved: What no token may spell; pairs that would are left aside.
        progress: Called as progress("merge pairs", merges, num_merges).
    """
    if len(counts.data) > _MAX_BYTES:
        raise TokenizerError(
            f"distinct words must have at most {_MAX_BYTES} bytes together, got {len(counts.data)}; "
            "use a pattern that cuts shorter words, or fewer documents"
        )
    name = resolve_priority(
        priority, num_repositories=len(counts.repository_names), num_languages=len(counts.language_names)
    )
    known = np.zeros((0, 2), np.int32) if known_pairs is None else known_pairs
    trainer = _Trainer(
        counts, known, reserved, num_merges, name, min_repositories, min_languages, Ties(ties), max_token_length
    )
    while trainer.merge_batch():
        if progress:
            progress("merge pairs", trainer.num_merges, num_merges)
    return trainer.result()


class _Trainer:
    def __init__(
        self,
        counts: WordCounts,
        known_pairs: np.ndarray,
        reserved: Collection[bytes],
        num_merges: int,
        priority: str,
        min_repositories: int,
        min_languages: int,
        ties: Ties,
        max_token_length: int | None,
    ) -> None:
        sources = Sources(counts)
        self._priority = make_priority(priority, sources.num_repositories)
        self._text = make_text(counts, known_pairs)
        self._pairs = Pairs(self._text, sources, self._priority, ties)
        self._queue = Queue(self._pairs, has_fixed_keys=not ties.is_first)
        self._ties = ties
        self._min_repositories = min_repositories
        self._min_languages = min_languages
        self._max_token_length = max_token_length or np.iinfo(np.int64).max
        self._needs_exact = priority != "F" or min_repositories > 1 or min_languages > 1 or ties.is_first
        self._num_wanted = num_merges
        self.num_merges = 0
        self._num_skipped = 0
        self._limit = _MIN_CANDIDATES
        self._merged: list[PairRows] = []
        # By token: R and L when it was made, and length in bytes. R and L of bytes and of known tokens are bounds.
        self._first_token = NUM_BYTES + len(known_pairs)
        num_tokens = self._first_token + min(num_merges, len(counts.data)) + _MAX_CANDIDATES
        self._repositories = np.full(num_tokens, sources.num_repositories, np.int64)
        self._languages = np.full(num_tokens, sources.num_languages, np.int64)
        self._lengths = np.ones(num_tokens, np.int64)
        self._lengths[: self._first_token] = known_lengths(known_pairs)
        self._reserved = Reserved(reserved, known_pairs, num_tokens)
        births = self._text.all_births()
        self._add(self._group(_sort(births)))

    def result(self) -> Merges:
        rows = [self._pairs.take(np.zeros(0, np.int64)), *self._merged]
        lefts, rights, _, frequency, repositories, languages, _ = map(np.concatenate, zip(*rows, strict=True))
        return Merges(
            pairs=np.stack((lefts, rights), axis=1),
            frequency=frequency,
            repositories=repositories,
            languages=languages,
            steps=self.num_merges + self._num_skipped,
        )

    def merge_batch(self) -> bool:
        """Make some of the merges that are wanted; False when all are made or nothing is left to merge."""
        numbers = self._choose()
        if self.num_merges == self._num_wanted or len(numbers) == 0:
            return False
        rows = self._pairs.take(numbers)
        is_skipped = (rows.repositories < self._min_repositories) | (rows.languages < self._min_languages)
        # tokens: (candidates,), what each would make, if it is not skipped
        tokens = (self._first_token - 1 + self.num_merges + np.cumsum(~is_skipped)).astype(np.int32)
        self._describe(tokens[~is_skipped], rows.take(~is_skipped))
        spots = self._pairs.find(numbers)
        cut = min(
            self._text.find_conflict(spots, len(numbers)),
            int(np.searchsorted(tokens, self._first_token - 1 + self._num_wanted)) + 1,
        )
        spots = spots.keep((~is_skipped & (np.arange(len(numbers)) < cut))[spots.ranks])
        spots = self._text.every_other(spots, rows.lefts == rows.rights)
        plan = self._text.plan(spots, tokens)
        groups = self._group(_sort(plan.births))
        final_cut = self._cut_at_births(groups, rows, cut)
        if final_cut < cut:
            plan = self._text.plan(spots.keep(spots.ranks < final_cut), tokens)
            groups = self._group(_sort(plan.births))
        self._apply(plan, groups, numbers[:final_cut], is_skipped[:final_cut], tokens)
        self._adapt_limit(len(numbers), final_cut)
        return True

    def _adapt_limit(self, num_candidates: int, num_taken: int) -> None:
        """Ask for a few more candidates than the last round took, or for twice as many where it took all there were."""
        limit = 2 * self._limit if num_taken == num_candidates else num_taken * _AHEAD + _MIN_CANDIDATES // 2
        self._limit = min(int(limit), _MAX_CANDIDATES)

    def _choose(self) -> np.ndarray:
        """Return some of the best pairs, best first, R, L and keys exact where they matter."""
        while True:
            numbers = self._queue.top(self._limit)
            if not self._needs_exact:
                return numbers
            is_exact = self._pairs.is_exact(numbers)
            num_exact = len(numbers) if is_exact.all() else int(np.argmin(is_exact))
            if 2 * num_exact >= len(numbers):
                return numbers[:num_exact]
            bounded = numbers[~is_exact]
            self._pairs.make_exact(bounded, self._pairs.find(bounded))

    def _describe(self, tokens: np.ndarray, rows: PairRows) -> None:
        self._repositories[tokens] = rows.repositories
        self._languages[tokens] = rows.languages
        self._lengths[tokens] = self._lengths[rows.lefts] + self._lengths[rows.rights]
        self._reserved.describe(tokens, rows.lefts, rows.rights)

    def _group(self, births: "_SortedBirths") -> "_Groups":
        """Return the new pairs; F is that of the births there are."""
        codes, slots = births.codes, births.slots
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        lefts, rights = (codes[starts] >> 32).astype(np.int32), codes[starts].astype(np.int32)
        frequencies = np.add.reduceat(self._text.weights[slots], starts) if len(starts) else np.zeros(0, np.int64)
        lengths = self._lengths[lefts] + self._lengths[rights]
        frequencies[lengths > self._max_token_length] = 0
        frequencies[self._reserved.find(lefts, rights, lengths)] = 0
        repositories = np.minimum(self._repositories[lefts], self._repositories[rights])
        repositories = np.minimum(repositories, frequencies)
        languages = np.minimum(self._languages[lefts], self._languages[rights])
        priorities = self._priority.evaluate(frequencies, repositories, languages)
        keys = self._ties.keys(lefts, rights, slots, starts)
        rows = PairRows(lefts, rights, keys, frequencies, repositories, languages, priorities)
        return _Groups(rows, births.ranks[starts], births, np.diff(starts, append=len(slots)))

    def _cut_at_births(self, groups: "_Groups", rows: PairRows, cut: int) -> int:
        """Return how many of the first `cut` candidates come before every pair that is born earlier among them."""
        is_rival = groups.rows.priorities >= rows.priorities[cut - 1]
        if not is_rival.any():
            return cut
        rivals, ranks = groups.rows.take(is_rival), groups.ranks[is_rival]
        keys = np.concatenate((rows.keys[:cut], rivals.keys))
        order = np.lexsort((keys, -np.concatenate((rows.priorities[:cut], rivals.priorities))))
        is_candidate = order < cut
        num_better = np.cumsum(is_candidate)[~is_candidate]  # candidates that come before each rival
        born_after = ranks[order[~is_candidate] - cut] + 1
        return min(cut, int(np.maximum(born_after, num_better).min()))

    def _apply(
        self, plan: Plan, groups: "_Groups", numbers: np.ndarray, is_skipped: np.ndarray, tokens: np.ndarray
    ) -> None:
        merged = numbers[~is_skipped]
        if not self._needs_exact:
            self._pairs.make_exact(merged, plan.spots)
        self._merged.append(self._pairs.take(merged))
        self._pairs.lower(*self._text.merge(plan, tokens))
        self._pairs.retire(numbers)
        if groups.births.is_passing.any():
            groups = self._group(groups.births.lasting())
        self._add(groups)
        self.num_merges += len(merged)
        self._num_skipped += len(numbers) - len(merged)

    def _add(self, groups: "_Groups") -> None:
        self._queue.add(self._pairs.add(groups.rows, groups.births.slots, groups.lengths))


class _SortedBirths(NamedTuple):
    """Births by pair, those of a pair as they come."""

    codes: np.ndarray  # int64, rising: left token << 32 | right token
    slots: np.ndarray  # int32
    ranks: np.ndarray  # int32
    is_passing: np.ndarray  # bool

    def lasting(self) -> "_SortedBirths":
        """Return those that no later merge of the batch ends."""
        return _SortedBirths(*(column[~self.is_passing] for column in self))


class _Groups(NamedTuple):
    """New pairs, and where they are."""

    rows: PairRows  # F at birth
    ranks: np.ndarray  # int32[pairs]: the merge at which each is born
    births: _SortedBirths
    lengths: np.ndarray  # int64[pairs]: births of each


def _sort(births: Births) -> _SortedBirths:
    """Sort births by pair, in each as they come.

    Sorting numbers that hold pair and index takes a third of the time of `argsort`; they rarely do not fit.
    """
    size = len(births.slots)
    token_bits = int(max(births.lefts.max(), births.rights.max())).bit_length() if size else 0
    index_bits = size.bit_length()
    if 2 * token_bits + index_bits > 63:
        order = np.argsort(births.codes, kind="stable")
        codes = births.codes[order]
    else:
        packed = (births.lefts.astype(np.int64) << token_bits | births.rights) << index_bits
        packed |= np.arange(size)
        packed.sort()
        order = packed & ((1 << index_bits) - 1)
        packed >>= index_bits
        codes = packed >> token_bits << 32 | packed & ((1 << token_bits) - 1)
    return _SortedBirths(codes, births.slots[order], births.ranks[order], births.is_passing[order])
