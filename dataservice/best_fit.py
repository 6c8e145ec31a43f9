"""Best-fit packing (arXiv 2404.10830): documents cut at the length of rows, and packed into as few as possible."""

import numpy as np

from dataservice.decomposition import chunk_starts, tails
from dataservice.packing import pack_pieces
from dataservice.pieces import PiecedRows

__all__ = ["best_fit"]


def best_fit(documents: np.ndarray, length: int) -> PiecedRows:
    """Return rows of `length`, a power of two, that hold every input of a shard once.

    `documents` holds the position of each document's first input and the end of the last document. Of a document come
    pieces of `length` from its head and what is left; they are packed by best-fit decreasing, longest first, each into
    the fullest row where it fits. Documents of 9, 3 and 5 inputs give rows of 8 with pieces (8), (5, 3) and (1).
    """
    power = length.bit_length() - 1
    heads = chunk_starts(documents, power, power)
    tail_starts, tail_lengths = tails(documents, length)
    starts = np.concatenate([heads, tail_starts])
    return pack_pieces(starts, np.concatenate([np.full(len(heads), length), tail_lengths]), length)
