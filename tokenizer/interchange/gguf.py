"""A vocabulary as a GGUF file (version 3, without tensors), which llama.cpp and its converters read.

llama.cpp does not run the pattern that a file holds: it knows patterns by name, so only those can be exported. It
splits by its own code, which differs from the expressions in rare text: long s (U+017F) after an apostrophe, characters
newer than its Unicode tables, and for o200k letters with case outside ASCII and combining marks.
"""

import struct
from typing import TYPE_CHECKING, Any

from tokenizer.errors import TokenizerError
from tokenizer.interchange.huggingface import special_roles
from tokenizer.interchange.huggingface_import import GPT2_WITH_SINGLE_DIGITS
from tokenizer.merging.known import find_cut_tokens
from tokenizer.merging.ties import byte_alphabet
from tokenizer.splitting.documents import split_documents
from tokenizer.splitting.patterns import PATTERNS

if TYPE_CHECKING:
    from tokenizer.vocabulary import Tokenizer

__all__ = ["export_gguf", "gguf_fields"]

SPLITTERS = {
    PATTERNS["gpt2"]: "gpt-2",
    PATTERNS["gpt4"]: "llama-bpe",
    PATTERNS["llama3"]: "llama-bpe",
    PATTERNS["o200k"]: "gpt-4o",
    PATTERNS["qwen2"]: "qwen2",
    GPT2_WITH_SINGLE_DIGITS: "starcoder",
}
"""llama.cpp's names of patterns."""

WHOLE_WORDS = "llama-bpe"
"""The splitter with which llama.cpp takes a word that is a token as it is, without merging."""

NORMAL, CONTROL, UNUSED = 1, 3, 5
ROLES = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
ALIGNMENT = 32

_UINT32, _INT32, _BOOL, _STRING, _ARRAY = 4, 5, 7, 8, 9


def gguf_fields(tokenizer: "Tokenizer") -> dict[str, Any]:
    """Make the fields of a vocabulary: strings, booleans, numbers (uint32), lists of strings or of numbers (int32).

    Raises TokenizerError where llama.cpp would give other ids.
    """
    splitter = SPLITTERS.get(tokenizer.pattern)
    if splitter is None:
        raise TokenizerError(
            "pattern must be one that llama.cpp knows, gpt2, gpt4, llama3, o200k or qwen2, for GGUF, "
            f"got {tokenizer.pattern!r}"
        )
    if splitter == WHOLE_WORDS:
        _refuse_whole_words(tokenizer)
    letters = byte_alphabet()
    tokens = ["".join(letters[byte] for byte in token) for token in tokenizer.token_bytes]
    kinds = [NORMAL] * len(tokens)
    for name, number in tokenizer.special_tokens.items():
        tokens[number] = name
        kinds[number] = UNUSED if name.startswith("<|unused_token_") else CONTROL
    merges = [f"{tokens[left]} {tokens[right]}" for left, right in tokenizer.ids[tokenizer.pairs].tolist()]
    roles = {
        f"tokenizer.ggml.{ROLES[role]}_token_id": tokenizer.special_tokens[name]
        for role, name in special_roles(tokenizer).items()
        if role in ROLES
    }
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": splitter,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        **roles,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
    }


def export_gguf(tokenizer: "Tokenizer") -> bytes:
    """Write the file's content; raises TokenizerError as ``gguf_fields`` does."""
    fields = gguf_fields(tokenizer)
    header = struct.pack("<4sIQQ", b"GGUF", 3, 0, len(fields))
    content = header + b"".join(_string(name) + _typed(value) for name, value in fields.items())
    return content + bytes(-len(content) % ALIGNMENT)


def _refuse_whole_words(tokenizer: "Tokenizer") -> None:
    if (cut := find_cut_tokens(tokenizer.pairs)).size:
        token = tokenizer.token_bytes[tokenizer.ids[cut[0]]]
        raise TokenizerError(
            f"tokens must be made from their own bytes for GGUF, got {token!r}, which its merges leave in parts"
        )
    names = list(tokenizer.special_tokens)
    num_words = split_documents(names, tokenizer.pattern).document_words
    for name, first, last in zip(names, num_words, num_words[1:], strict=False):
        if last - first == 1:
            raise TokenizerError(f"special_tokens must not be whole words of the pattern for GGUF, got {name!r}")


def _typed(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", _BOOL, value)
        case int():
            return struct.pack("<II", _UINT32, value)
        case str():
            return struct.pack("<I", _STRING) + _string(value)
    is_text = bool(value) and isinstance(value[0], str)
    items = b"".join(map(_string, value)) if is_text else struct.pack(f"<{len(value)}i", *value)
    return struct.pack("<IIQ", _ARRAY, _STRING if is_text else _INT32, len(value)) + items


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
