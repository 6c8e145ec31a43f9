"""Byte-pair encoding of long words: rank by rank through lists of positions.

Each position is touched a few times, so a megabyte without a space takes time in proportion to its length.
"""

from collections import defaultdict
from heapq import heappop, heappush

import numpy as np

from tokenizer.encoding.pair_ranks import NO_RANK, NO_SYMBOL, PairRanks
from tokenizer.ragged import offsets_of

__all__ = ["encode_long_words"]

NUM_BYTES = 256


def encode_long_words(data: np.ndarray, offsets: np.ndarray, ranks: PairRanks) -> tuple[np.ndarray, np.ndarray]:
    """Encode words; arguments and result as those of `encode_words`."""
    num = data.size
    # One slot more than symbols: it stands before the first and after the last symbol of every word.
    symbols = np.append(data.astype(np.int32), NO_SYMBOL)
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
        symbols[gone] = NO_SYMBOL
        following[at] = following[gone]
        preceding[following[at]] = at
        before = preceding[at]
        enqueue(np.concatenate([at, before[symbols[before] != NUM_BYTES + rank]]))
    is_kept = symbols[:-1] != NO_SYMBOL
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
