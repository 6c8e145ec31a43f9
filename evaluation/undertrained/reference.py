"""The tokens that a model has never seen for certain: what under-trained ones are compared with."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evaluation.errors import EvaluationError
from tokenizer import Tokenizer

__all__ = ["Reference", "find_reference"]

# Ours (<|unused_token_0|>), Llama 3 (<|reserved_special_token_0|>), Gemma (<unused0>), BERT ([unused0]) and their like.
_RESERVED = re.compile(r"[<\[]\|?(unused|reserved)[a-z_]*\d+\|?[>\]]", re.IGNORECASE)


class Reference(NamedTuple):
    """Rows of the embeddings that are known to be unused."""

    ids: np.ndarray
    """int64[n], rising."""
    source: str
    """Where they come from, in words: `reserved tokens`, `rows above the vocabulary` or `listed`."""


def find_reference(tokenizer: Tokenizer, num_rows: int, listed: Sequence[int] = ()) -> Reference:
    """The listed tokens; without any, tokens with reserved names; without these, rows that no token has.

    Rows above the vocabulary come last, since they are often added, as padding, when a model is trained already.

    Args:
        tokenizer: That of the model.
        num_rows: Rows of its embeddings.
        listed: Ids that take the place of what would be found.

    Raises:
        EvaluationError: there are none, or a listed one is no row.
    """
    if len(listed):
        outside = [number for number in listed if not 0 <= number < num_rows]
        if outside:
            raise EvaluationError(
                f"unused must be ids from 0 to {num_rows - 1}, got {outside[0]}; name rows of the model"
            )
        return Reference(np.unique(np.asarray(listed, np.int64)), "listed")
    reserved = [number for name, number in tokenizer.special_tokens.items() if _RESERVED.fullmatch(name)]
    if reserved:
        return Reference(np.sort(np.array(reserved, np.int64)), "reserved tokens")
    if num_rows > tokenizer.vocab_size:
        return Reference(np.arange(tokenizer.vocab_size, num_rows), "rows above the vocabulary")
    raise EvaluationError(
        "model must have tokens that are known to be unused, got no reserved names and no rows above the vocabulary; "
        "name some by their ids with --unused"
    )
