"""Tokens to take out of a vocabulary by name: those of a list, as far as nothing that stays is made of them."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.interchange.huggingface_import import parse_json
from tokenizer.vocabulary import NUM_BYTES, Tokenizer

__all__ = ["Removal", "plan_removal", "read_removal"]


class Removal(NamedTuple):
    """What becomes of listed tokens."""

    is_kept: np.ndarray
    """bool[merges]: which merges stay."""
    num_parts: int
    """Listed merges that stay, as tokens that stay are made of them."""
    num_fixed: int
    """Listed bytes and special tokens, which always stay."""


def plan_removal(tokenizer: Tokenizer, ids: Collection[int]) -> Removal:
    """Decide which of the listed tokens go: those of which everything that is made is listed too.

    So a part of another token goes only together with it, and every token that stays is still made by the same merges.
    Raises TokenizerError for what is no id.
    """
    wanted = np.unique(np.asarray(sorted(ids), np.int64))
    outside = wanted[(wanted < 0) | (wanted >= tokenizer.vocab_size)]
    if outside.size:
        raise TokenizerError(f"ids to remove must be at least 0 and below {tokenizer.vocab_size}, got {outside[0]}")
    places = np.argsort(tokenizer.ids)[wanted]
    num_learned = NUM_BYTES + len(tokenizer.pairs)
    is_listed = np.zeros(num_learned, bool)
    is_listed[places[places < num_learned]] = True
    is_needed = ~is_listed
    is_needed[:NUM_BYTES] = True
    parts = tokenizer.pairs.tolist()
    for merge in range(len(parts) - 1, -1, -1):  # what is made of a token comes after it
        if is_needed[NUM_BYTES + merge]:
            is_needed[parts[merge]] = True
    num_parts = int((is_listed & is_needed)[NUM_BYTES:].sum())
    is_merge = (places >= NUM_BYTES) & (places < num_learned)
    return Removal(is_needed[NUM_BYTES:], num_parts, int((~is_merge).sum()))


def read_removal(path: Path, tokenizer: Tokenizer) -> list[int]:
    """Read ids to remove from a JSON file {"fingerprint": that of the tokenizer, "ids": [...]}, with more keys or not.

    `python -m evaluation undertrained --removal` writes one. Raises TokenizerError for anything else, and for ids of
    another tokenizer.
    """
    try:
        content = parse_json(path.read_bytes(), path)
    except OSError as error:
        raise TokenizerError(f"remove must be a JSON file, got {error.strerror}: {path}") from None
    ids, fingerprint = content.get("ids"), content.get("fingerprint")
    if not isinstance(ids, list) or not all(type(number) is int for number in ids):
        raise TokenizerError(f'remove must have "ids", a list of whole numbers, got {str(ids)[:40]}: {path}')
    if fingerprint != tokenizer.fingerprint:
        raise TokenizerError(
            f"remove must list tokens of the tokenizer {tokenizer.fingerprint}, got those of {fingerprint}: {path}; "
            "find them anew"
        )
    return ids
