"""The history of a vocabulary: what training knew of each merge when it was made."""

from typing import NamedTuple

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.vocabulary import Tokenizer

__all__ = ["MergeHistory", "history"]


class MergeHistory(NamedTuple):
    """Merges in order, int64[merges] each (Figure 2 of SA-BPE, arXiv 2604.14053, plots R and L over the number)."""

    numbers: np.ndarray  # the places among the vocabulary's merges: 0, 1, ... but for those of which nothing is known
    frequency: np.ndarray  # F of the pair when it was merged
    repositories: np.ndarray  # R, likewise
    languages: np.ndarray  # L, likewise


def history(tokenizer: Tokenizer) -> MergeHistory:
    """Return F, R, L of every merge of which they are known; raises TokenizerError when that is none."""
    merges = tokenizer.merges
    if merges is None or not merges.frequency.any():
        raise TokenizerError(
            "tokenizer must know F, R, L of its merges, got one without (an imported one); train one to see its history"
        )
    known = np.flatnonzero(merges.frequency)  # 0 in the merges that an imported tokenizer had before it was extended
    return MergeHistory(known, merges.frequency[known], merges.repositories[known], merges.languages[known])
