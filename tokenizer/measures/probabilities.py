"""The distribution of token probabilities."""

import numpy as np

from tokenizer.errors import TokenizerError

__all__ = ["probabilities"]


def probabilities(token_counts: np.ndarray) -> np.ndarray:
    """Turn occurrences by token, int64[vocab_size], into probabilities, float64[tokens that occur], falling.

    Figure 6 of SA-BPE (arXiv 2604.14053). Raises TokenizerError when no token occurs.

    >>> probabilities(np.array([0, 1, 3])).tolist()
    [0.75, 0.25]
    """
    counts = np.sort(token_counts[token_counts > 0])[::-1]
    if not counts.size:
        raise TokenizerError("documents must hold some text to measure, got none; see their paths and languages")
    return counts / counts.sum()
