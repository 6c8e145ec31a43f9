"""Training: merges made in exact batches.

One merge at a time would be the plain algorithm: take the pair of the highest priority, replace it everywhere by a new
token, count again. Consecutive merges mostly do not touch each other, so a round takes the best pairs together and
cuts the batch where the plain algorithm might do something else:

- before a pair with a position that overlaps one of an earlier pair (its F, R, L might fall);
- before a pair that does not beat every new pair born earlier in the batch, at its F when it is born.

What is left is applied in one vectorised update. The result is that of the plain algorithm, merge for merge.

R and L are counted late: they fall while a pair lives and are at most those of its parts, so every pair has an upper
bound of its priority for nothing, and only pairs whose bound reaches the top are counted.
"""

from dataclasses import dataclass

import numpy as np

from tokenizer.counting import WordCounts
from tokenizer.errors import TokenizerError
from tokenizer.merging_pairs import PAIR, Pairs
from tokenizer.merging_queue import Queue
from tokenizer.merging_sources import Sources
from tokenizer.merging_text import Births, Spots, Text
from tokenizer.priorities import make_priority, resolve_priority
from tokenizer.progress import Progress

__all__ = ["Merges", "merge_words"]

NUM_BYTES = 256
_MIN_CANDIDATES = 8
_MAX_CANDIDATES = 4096


@dataclass(frozen=True, kw_only=True)
class Merges:
    """Merges in the order in which they were made; merge m makes token 256 + m."""

    pairs: np.ndarray
    """int32[merges, 2]: the ids of the parts."""
    frequency: np.ndarray
    """int64[merges]: F of the pair when it was merged."""
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
    progress: Progress | None = None,
) -> Merges:
    """Make up to `num_merges` merges; fewer when no pair of positive priority is left.

    Args:
        counts: The words.
        num_merges: Merges wanted.
        priority: One of PRIORITIES, or "auto".
        min_repositories: Pairs in fewer repositories are skipped when they reach the top, for ever.
        min_languages: The same for languages.
        ties: "ids": of equal priorities the smaller (left id, right id) is first.
        max_token_length: Pairs that would make a longer token, in bytes, are left aside.
        progress: Called as progress("merge pairs", merges, num_merges).
    """
    if ties != "ids":
        raise TokenizerError(f"ties must be ids, got {ties!r}")
    name = resolve_priority(
        priority, num_repositories=len(counts.repository_names), num_languages=len(counts.language_names)
    )
    trainer = _Trainer(counts, num_merges, name, min_repositories, min_languages, max_token_length)
    while trainer.merge_batch():
        if progress:
            progress("merge pairs", trainer.num_merges, num_merges)
    return trainer.result()


class _Trainer:
    def __init__(
        self,
        counts: WordCounts,
        num_merges: int,
        priority: str,
        min_repositories: int,
        min_languages: int,
        max_token_length: int | None,
    ) -> None:
        self._text = Text(counts)
        sources = Sources(counts)
        self._pairs = Pairs(self._text, sources, make_priority(priority, sources.num_repositories))
        self._queue = Queue(self._pairs)
        self._min_repositories = min_repositories
        self._min_languages = min_languages
        self._max_token_length = max_token_length or np.iinfo(np.int64).max
        self._needs_sources = priority != "F" or min_repositories > 1 or min_languages > 1
        self._num_wanted = num_merges
        self.num_merges = 0
        self._num_skipped = 0
        self._limit = _MIN_CANDIDATES
        self._merged: list[np.ndarray] = []  # PAIR rows
        # By token: R and L when it was made, and length in bytes. Those of bytes are bounds.
        num_tokens = NUM_BYTES + min(num_merges, len(counts.data)) + _MAX_CANDIDATES
        self._repositories = np.full(num_tokens, sources.num_repositories, np.int64)
        self._languages = np.full(num_tokens, sources.num_languages, np.int64)
        self._lengths = np.ones(num_tokens, np.int64)
        self._add_pairs(self._text.slots_with_pairs())

    def result(self) -> Merges:
        rows = np.concatenate([np.zeros(0, PAIR), *self._merged])
        return Merges(
            pairs=np.stack((rows["left"], rows["right"]), axis=1),
            frequency=rows["frequency"].copy(),
            repositories=rows["repositories"].copy(),
            languages=rows["languages"].copy(),
            steps=self.num_merges + self._num_skipped,
        )

    def merge_batch(self) -> bool:
        """Make some of the merges that are wanted; False when all are made or nothing is left to merge."""
        candidates = self._choose()
        if self.num_merges == self._num_wanted or len(candidates) == 0:
            return False
        rows = self._pairs.rows[candidates]
        is_skipped = (rows["repositories"] < self._min_repositories) | (rows["languages"] < self._min_languages)
        # tokens: (candidates,), what each would make, if it is not skipped
        tokens = (NUM_BYTES - 1 + self.num_merges + np.cumsum(~is_skipped)).astype(np.int32)
        last = NUM_BYTES - 1 + self._num_wanted
        spots = self._pairs.find(candidates)
        cut = min(self._text.find_conflict(spots, len(rows)), int(np.searchsorted(tokens, last)) + 1)
        self._describe_tokens(tokens[~is_skipped], rows[~is_skipped])
        spots = spots.keep(~is_skipped & (np.arange(len(rows)) < cut))
        spots = self._text.every_other(spots, rows["left"] == rows["right"])
        cut = self._cut_at_births(self._text.births(spots, tokens), rows[:cut])
        self._apply(candidates[:cut], ~is_skipped[:cut], spots.keep(np.arange(len(rows)) < cut), tokens)
        self._limit = min(max(2 * cut, _MIN_CANDIDATES), _MAX_CANDIDATES)
        return True

    def _choose(self) -> np.ndarray:
        """Return some of the best pairs, best first, R and L exact where they matter."""
        while True:
            candidates = self._queue.top(self._limit)
            if not self._needs_sources:
                return candidates
            rows = self._pairs.rows[candidates]
            is_bound = rows["counted_frequency"] != rows["frequency"]
            num_exact = int(np.argmax(is_bound)) if is_bound.any() else len(candidates)
            if num_exact > 0 or len(candidates) == 0:
                return candidates[:num_exact]
            self._pairs.count_sources(candidates[is_bound])

    def _describe_tokens(self, tokens: np.ndarray, rows: np.ndarray) -> None:
        if self._needs_sources:
            self._repositories[tokens] = rows["repositories"]
            self._languages[tokens] = rows["languages"]
        self._lengths[tokens] = self._lengths[rows["left"]] + self._lengths[rows["right"]]

    def _cut_at_births(self, births: Births, rows: np.ndarray) -> int:
        """Return how many of the candidates come before every pair that is born earlier among them."""
        codes = _codes(births.lefts, births.rights)
        order, starts = _group(codes)
        if len(starts) == 0:
            return len(rows)
        born = np.zeros(len(starts), PAIR)
        first = order[starts]
        self._fill(born, births.lefts[first], births.rights[first])
        born["frequency"] = np.add.reduceat(self._text.counts.counts[births.words[order]], starts)
        born["repositories"] = np.minimum(born["repositories"], born["frequency"])
        born["priority"] = self._pairs.evaluate(born)
        is_rival = (born["priority"] >= rows["priority"][-1]) & ~self._is_too_long(born)
        if not is_rival.any():
            return len(rows)
        rivals, ranks = born[is_rival], births.ranks[first[is_rival]]
        keys = np.concatenate((rows["key"], rivals["key"]))
        order = np.lexsort((keys, -np.concatenate((rows["priority"], rivals["priority"]))))
        is_candidate = order < len(rows)
        num_better = np.cumsum(is_candidate)[~is_candidate]  # candidates that come before each rival
        born_after = ranks[order[~is_candidate] - len(rows)] + 1
        return min(len(rows), int(np.maximum(born_after, num_better).min()))

    def _apply(self, candidates: np.ndarray, is_merged: np.ndarray, spots: Spots, tokens: np.ndarray) -> None:
        merged = candidates[is_merged]
        if not self._needs_sources:
            self._pairs.count_sources(merged)
        self._merged.append(self._pairs.rows[merged])
        ended, ended_pairs, started = self._text.merge(spots, tokens)
        is_pair = ended_pairs >= 0
        self._pairs.lower(ended_pairs[is_pair], self._text.weights(ended[is_pair]))
        self._pairs.retire(candidates)
        self._add_pairs(started)
        self.num_merges += len(merged)
        self._num_skipped += len(candidates) - len(merged)

    def _add_pairs(self, slots: np.ndarray) -> None:
        """Add the new pairs that start at these slots."""
        lefts, rights = self._text.tokens[slots], self._text.tokens[self._text.nexts[slots]]
        order, starts = _group(_codes(lefts, rights))
        if len(starts) == 0:
            return
        rows = np.zeros(len(starts), PAIR)
        first = order[starts]
        self._fill(rows, lefts[first], rights[first])
        numbers = self._pairs.add(rows, slots[order], np.diff(starts, append=len(slots)))
        is_too_long = self._is_too_long(rows)
        self._pairs.retire(numbers[is_too_long])
        self._queue.add(numbers[~is_too_long])

    def _fill(self, rows: np.ndarray, lefts: np.ndarray, rights: np.ndarray) -> None:
        """Write what is known of new pairs from their tokens."""
        rows["left"], rows["right"] = lefts, rights
        rows["key"] = _codes(lefts, rights)
        rows["repositories"] = np.minimum(self._repositories[lefts], self._repositories[rights])
        rows["languages"] = np.minimum(self._languages[lefts], self._languages[rights])

    def _is_too_long(self, rows: np.ndarray) -> np.ndarray:
        return self._lengths[rows["left"]] + self._lengths[rows["right"]] > self._max_token_length


def _codes(lefts: np.ndarray, rights: np.ndarray) -> np.ndarray:
    return lefts.astype(np.int64) << 32 | rights


def _group(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order that sorts codes, and where each distinct one starts in it."""
    order = np.argsort(codes)
    return order, np.flatnonzero(np.diff(codes[order], prepend=-1))
