"""The history of a vocabulary: what training knew of each merge when it was made."""

from typing import NamedTuple

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.vocabulary import Tokenizer

__all__ = ["MergeHistory", "history"]


class MergeHistory(NamedTuple):
    """Merges in order, int64[merges] each (Figure 2 of SA-BPE, arXiv 2604.14053, plots R and L over the number)."""

    numbers: np.ndarray  # 0, 1, ...; of a pruned vocabulary, the places among its own merges
    frequency: np.ndarray  # F of the pair when it was merged
    repositories: np.ndarray  # R, likewise
    languages: np.ndarray  # L, likewise


def history(tokenizer: Tokenizer) -> MergeHistory:
    """Return F, R, L of every merge; raises TokenizerError for a tokenizer that does not know them."""
    merges = tokenizer.merges
    if merges is None:
        raise TokenizerError(
            "tokenizer must know F, R, L of its merges, got one without (an imported one); train one to see its history"
        )
    return MergeHistory(np.arange(len(merges.pairs)), merges.frequency, merges.repositories, merges.languages)
