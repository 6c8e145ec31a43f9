"""The Hugging Face form of a tokenizer: ``tokenizer.json`` and ``tokenizer_config.json``, with the same ids."""

from typing import TYPE_CHECKING, Any

from tokenizer.merging.ties import byte_alphabet

if TYPE_CHECKING:
    from tokenizer.vocabulary import Tokenizer

__all__ = ["special_roles", "to_tokenizer_config", "to_tokenizer_json"]

NUM_BYTES = 256

ROLES = {
    "bos_token": ("<eod>", "<|begin_of_text|>", "<|endoftext|>", "<s>"),
    "eos_token": ("<eod>", "<|end_of_text|>", "<|endoftext|>", "</s>"),
    "pad_token": ("<pad>", "<|finetune_right_pad_id|>"),
    "unk_token": ("<unk>",),
    "mask_token": ("<mask>",),
    "cls_token": ("<cls>",),
    "sep_token": ("<sep>",),
}
"""Special tokens by role; the first that a tokenizer has is taken."""


def to_tokenizer_json(tokenizer: "Tokenizer") -> dict[str, Any]:
    """Make the content of ``tokenizer.json``: byte-level BPE behind our split pattern."""
    num_learned = NUM_BYTES + len(tokenizer.pairs)
    tokens = byte_alphabet()
    merges = []
    for left, right in tokenizer.pairs.tolist():
        merges.append([tokens[left], tokens[right]])
        tokens.append(tokens[left] + tokens[right])
    vocab = dict(zip(tokens, tokenizer.ids.tolist(), strict=False))
    if tokenizer.ids[num_learned:].min(initial=num_learned) < num_learned:
        vocab |= tokenizer.special_tokens  # else `tokenizers` numbers them after all others
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
            "vocab": vocab,
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
    """Make the content of ``tokenizer_config.json``: what AutoTokenizer needs, and no chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
        "model_input_names": ["input_ids", "attention_mask"],
        **special_roles(tokenizer),
    }


def special_roles(tokenizer: "Tokenizer") -> dict[str, str]:
    """Return the special tokens that have a role, by role.

    A document begins and ends with ``<eod>`` in training, so that is both the first and the last token of a text. A
    tokenizer without one, which was imported, has the roles that its authors' names tell.
    """
    found = {role: [name for name in names if name in tokenizer.special_tokens] for role, names in ROLES.items()}
    return {role: names[0] for role, names in found.items() if names}
