"""The Hugging Face form of a tokenizer: ``tokenizer.json`` and ``tokenizer_config.json``, with the same ids."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.ties import byte_alphabet

if TYPE_CHECKING:
    from tokenizer.vocabulary import Tokenizer

__all__ = ["from_tokenizer_json", "to_tokenizer_config", "to_tokenizer_json"]

NUM_BYTES = 256


def to_tokenizer_json(tokenizer: "Tokenizer") -> dict[str, Any]:
    """Make the content of ``tokenizer.json``: byte-level BPE behind our split pattern."""
    tokens = byte_alphabet()
    merges = []
    for left, right in tokenizer.pairs.tolist():
        merges.append([tokens[left], tokens[right]])
        tokens.append(tokens[left] + tokens[right])
    added = [
        {
            "id": number,
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for name, number in tokenizer.special_tokens.items()
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": _pre_tokenizer(tokenizer.pattern),
        "post_processor": None,
        "decoder": _byte_level(),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": merges,
        },
    }


def _byte_level() -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def _pre_tokenizer(pattern: str) -> dict[str, Any]:
    if not pattern:
        return _byte_level()
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, _byte_level()]}


def to_tokenizer_config(tokenizer: "Tokenizer") -> dict[str, Any]:
    """Make the content of ``tokenizer_config.json``: what AutoTokenizer needs, and no chat template.

    A document begins and ends with ``<eod>`` in training, so that is both the first and the last token of a text.
    """
    roles = {
        "bos_token": "<eod>",
        "eos_token": "<eod>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "cls_token": "<cls>",
        "sep_token": "<sep>",
    }
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
        "model_input_names": ["input_ids", "attention_mask"],
        **{role: name for role, name in roles.items() if name in tokenizer.special_tokens},
    }


def from_tokenizer_json(content: dict[str, Any], path: Path) -> tuple[np.ndarray, list[str], str]:
    """Read (pairs int32[merges, 2], special tokens, pattern) back; raises TokenizerError for any other tokenizer."""
    try:
        vocab, merges, added = content["model"]["vocab"], content["model"]["merges"], content["added_tokens"]
        pattern = _read_pattern(content["pre_tokenizer"])
        ids = {token: vocab[token] for token in byte_alphabet()}
        pairs = np.empty((len(merges), 2), np.int32)
        for number, (left, right) in enumerate(merges):
            pairs[number] = ids[left], ids[right]
            ids[left + right] = NUM_BYTES + number
    except (KeyError, TypeError, ValueError) as error:
        raise _refusal(f"{type(error).__name__} at {error}", path) from None
    special_ids = [token["id"] for token in added]
    if ids != vocab or [vocab[token] for token in byte_alphabet()] != list(range(NUM_BYTES)):
        raise _refusal("a vocabulary in another order", path)
    if special_ids != list(range(len(vocab), len(vocab) + len(added))):
        raise _refusal("special tokens that are not at the last ids", path)
    return pairs, [token["content"] for token in added], pattern


def _read_pattern(pre_tokenizer: dict[str, Any]) -> str:
    if pre_tokenizer["type"] == "ByteLevel":
        return ""
    pattern = pre_tokenizer["pretokenizers"][0]["pattern"]["Regex"]
    if pre_tokenizer != _pre_tokenizer(pattern):
        raise ValueError("pre_tokenizer")
    return pattern


def _refusal(found: str, path: Path) -> TokenizerError:
    return TokenizerError(
        f"tokenizer.json must be byte-level BPE in our own order (bytes, merges, special tokens), got {found}: {path}"
    )
