"""Byte-pair encoding of many different words at once.

A word's encoding merges, again and again, its pair of lowest rank, everywhere in the word from left to right. Words
are independent, so one round does that for all words. A round passes over all bytes that are still in work, so words
longer than ``LONG_WORD`` bytes, whose merges are many, go rank by rank through lists of positions instead, each
position touched a few times: a megabyte without a space takes time in proportion to its length.

BPE-dropout (Provilkov et al. 2020, as in subword-nmt) leaves pairs out of a round at random.
"""

from collections import defaultdict
from heapq import heappop, heappush

import numpy as np

from tokenizer.encoding.dropout import Dropout
from tokenizer.encoding.pair_ranks import NO_RANK, PairRanks
from tokenizer.ragged import offsets_of, take_rows

__all__ = ["encode_words"]

NUM_BYTES = 256
LONG_WORD = 256
REMOVED = np.int32(np.iinfo(np.int32).max)


def encode_words(
    data: np.ndarray, offsets: np.ndarray, ranks: PairRanks, dropout: Dropout | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Encode words into token ids.

    Args:
        data: uint8, the bytes of all words.
        offsets: int64[words + 1], word i is ``data[offsets[i] : offsets[i + 1]]``, not empty.
        ranks: The merges; merge r makes token 256 + r.
        dropout: Leaves pairs out, but for words longer than LONG_WORD, whose rounds would take too long.

    Returns:
        (ids, offsets): int32 token ids of all words, and int64[words + 1] where each word's begin.
    """
    is_long = np.diff(offsets) > LONG_WORD
    if not is_long.any():
        return _merge_in_rounds(data, offsets, ranks, dropout)
    short, long = np.flatnonzero(~is_long), np.flatnonzero(is_long)
    if dropout is not None:
        dropout = Dropout(dropout.probability, take_rows(dropout.keys, offsets, short)[0])
    short_ids, short_offsets = _merge_in_rounds(*take_rows(data, offsets, short), ranks, dropout)
    long_ids, long_offsets = _merge_by_rank(*take_rows(data, offsets, long), ranks)
    ids = np.concatenate([short_ids, long_ids])
    both = np.concatenate([short_offsets, long_offsets[1:] + short_ids.size])
    return take_rows(ids, both, _inverse(np.concatenate([short, long])))


def _merge_in_rounds(
    data: np.ndarray, offsets: np.ndarray, ranks: PairRanks, dropout: Dropout | None
) -> tuple[np.ndarray, np.ndarray]:
    symbols = data.astype(np.int32)
    lengths = np.diff(offsets)
    words = np.arange(lengths.size)
    # pair_ranks: (symbols,), the rank of each symbol's pair with the next of its word
    pair_ranks = ranks.find_bytes(data)
    pair_ranks[offsets[1:] - 1] = NO_RANK
    finished = []
    number = 0
    while words.size:
        starts = np.cumsum(lengths) - lengths
        offered = pair_ranks if dropout is None else dropout.drop(pair_ranks, number)
        best = np.minimum.reduceat(offered, starts)
        is_done = best == NO_RANK
        if is_done.any():
            in_done = np.repeat(is_done, lengths)
            finished.append((symbols[in_done], lengths[is_done], words[is_done]))
            symbols, pair_ranks, offered = symbols[~in_done], pair_ranks[~in_done], offered[~in_done]
            dropout = dropout and dropout.take(~in_done)
            lengths, words, best = lengths[~is_done], words[~is_done], best[~is_done]
            if not words.size:
                break
            starts = np.cumsum(lengths) - lengths
        hits = np.flatnonzero(offered == np.repeat(best, lengths))
        hits = _every_other(hits, hits + 1)
        is_kept = np.ones(symbols.size, bool)
        is_kept[hits + 1] = False
        symbols, pair_ranks, lengths = _merge(symbols, pair_ranks, starts, hits, is_kept, ranks)
        dropout = dropout and dropout.take(is_kept)
        number += 1
    if not finished:
        return symbols, offsets
    ids, lengths, words = (np.concatenate(parts) for parts in zip(*finished, strict=True))
    return take_rows(ids, offsets_of(lengths), _inverse(words))


def _merge(
    symbols: np.ndarray,
    pair_ranks: np.ndarray,
    starts: np.ndarray,
    hits: np.ndarray,
    is_kept: np.ndarray,
    ranks: PairRanks,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge the pairs at `hits` and keep the symbols of `is_kept`; returns symbols, pair ranks and word lengths."""
    symbols[hits] = pair_ranks[hits] + NUM_BYTES
    lengths = np.add.reduceat(is_kept, starts, dtype=np.int64)
    symbols, pair_ranks = symbols[is_kept], pair_ranks[is_kept]
    merged = hits - np.arange(hits.size)
    # Both pairs of a merged symbol are new; those that cross the end of a word are undone after.
    lefts = np.concatenate([merged, merged - 1])
    lefts = lefts[(lefts >= 0) & (lefts < symbols.size - 1)]
    pair_ranks[lefts] = ranks.find(symbols[lefts], symbols[lefts + 1])
    pair_ranks[np.cumsum(lengths) - 1] = NO_RANK
    return symbols, pair_ranks, lengths


def _merge_by_rank(data: np.ndarray, offsets: np.ndarray, ranks: PairRanks) -> tuple[np.ndarray, np.ndarray]:
    num = data.size
    # One slot more than symbols: it stands before the first and after the last symbol of every word.
    symbols = np.append(data.astype(np.int32), REMOVED)
    following = np.append(np.arange(1, num + 1), num)
    preceding = np.append(np.arange(-1, num - 1), num)
    following[offsets[1:] - 1] = num
    preceding[offsets[:-1]] = num
    positions_by_rank: dict[int, list[np.ndarray]] = defaultdict(list)
    queue: list[int] = []

    def enqueue(lefts: np.ndarray) -> None:
        found = ranks.find(symbols[lefts], symbols[following[lefts]])
        lefts, found = lefts[found != NO_RANK], found[found != NO_RANK]
        order = np.argsort(found, kind="stable")
        lefts, found = lefts[order], found[order]
        begins = np.flatnonzero(np.diff(found, prepend=-1))
        for rank, positions in zip(found[begins].tolist(), np.split(lefts, begins[1:]), strict=False):
            if rank not in positions_by_rank:
                heappush(queue, rank)
            positions_by_rank[rank].append(positions)

    enqueue(np.arange(num))
    while queue:
        rank = heappop(queue)
        left, right = ranks.pairs[rank]
        # A pair comes to a place once only, since each change there brings a newer token: no place is listed twice.
        at = np.sort(np.concatenate(positions_by_rank.pop(rank)))
        at = at[(symbols[at] == left) & (symbols[following[at]] == right)]
        at = _every_other(at, following[at])
        gone = following[at]
        symbols[at] = NUM_BYTES + rank
        symbols[gone] = REMOVED
        following[at] = following[gone]
        preceding[following[at]] = at
        before = preceding[at]
        enqueue(np.concatenate([at, before[symbols[before] != NUM_BYTES + rank]]))
    is_kept = symbols[:-1] != REMOVED
    return symbols[:-1][is_kept], offsets_of(np.add.reduceat(is_kept, offsets[:-1], dtype=np.int64))


def _every_other(hits: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Of hits that overlap (a hit's right symbol is the next hit's left), keep the first, third, ... of each run."""
    if hits.size < 2:
        return hits
    begins = np.concatenate([[True], hits[1:] != after[:-1]])
    run_starts = np.flatnonzero(begins)
    if run_starts.size == hits.size:
        return hits
    in_run = np.arange(hits.size) - np.repeat(run_starts, np.diff(np.append(run_starts, hits.size)))
    return hits[in_run % 2 == 0]


def _inverse(permutation: np.ndarray) -> np.ndarray:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(permutation.size)
    return inverse
