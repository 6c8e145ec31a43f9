"""Which tokens are worth a prompt: those that text can become, and of these the ones that look least trained."""

import numpy as np

from tokenizer import Tokenizer

__all__ = ["choose_candidates", "find_round_trips"]


def find_round_trips(tokenizer: Tokenizer) -> np.ndarray:
    """Which tokens are what their own text becomes, bool[vocab_size].

    Special tokens are not, nor parts of characters, nor tokens of which merging always makes something else.
    """
    texts = [token.decode(errors="replace") for token in tokenizer.token_bytes]
    ids, offsets = tokenizer.encode_batch(texts)
    is_single = np.diff(offsets) == 1
    found = np.zeros(tokenizer.vocab_size, bool)
    found[is_single] = ids[offsets[:-1][is_single]] == np.flatnonzero(is_single)
    return found


def choose_candidates(values: np.ndarray, is_eligible: np.ndarray, percent: float) -> tuple[np.ndarray, float]:
    """The eligible tokens at or under a percentile of the indicator, lowest first, and that threshold.

    Args:
        values: float64[V], an indicator.
        is_eligible: bool[V]; the percentile is among these.
        percent: 0 to 100.

    >>> choose_candidates(np.array([4.0, 1, 3, 2, 0]), np.array([True] * 4 + [False]), 25)
    (array([1]), 1.75)
    """
    eligible = np.flatnonzero(is_eligible)
    threshold = float(np.percentile(values[eligible], percent))
    chosen = eligible[values[eligible] <= threshold]
    return chosen[np.argsort(values[chosen], kind="stable")], threshold
