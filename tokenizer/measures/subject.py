"""What can be measured: anything with tokens that encodes texts, and where it is read from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from tokenizer.artefact import PROVENANCE, TOKENIZER
from tokenizer.errors import TokenizerError
from tokenizer.vocabulary import Tokenizer

__all__ = ["OtherTokenizer", "Subject", "learned_tokens", "open_subject"]


class OtherTokenizer(Protocol):
    """What an adapter around a tokenizer of another library has."""

    @property
    def token_bytes(self) -> list[bytes]:
        """Bytes of text that every token stands for, by id; b"" for special tokens."""
        ...

    def encode_batch(self, texts: Sequence[str], /) -> tuple[np.ndarray, np.ndarray]:
        """Encode into (ids int[tokens], offsets int[texts + 1]): text i has ``ids[offsets[i] : offsets[i + 1]]``."""
        ...


Subject: TypeAlias = Tokenizer | OtherTokenizer
"""What can be measured."""


def open_subject(path: Path, *, pattern: str = "gpt4", drop_normalizer: bool = False) -> Tokenizer:
    """Open a tokenizer's folder, a ``tokenizer.json`` of byte-level BPE or its folder, or a file of tiktoken ranks.

    Args:
        path: The file or folder.
        pattern: What splits text before tiktoken ranks, which do not say it.
        drop_normalizer: Take a ``tokenizer.json`` that normalises text without that.

    Raises TokenizerError for anything else.
    """
    if path.is_dir() and (path / PROVENANCE).exists():
        return Tokenizer.load(path)
    if path.is_file() and path.suffix != ".json":
        return Tokenizer.from_tiktoken(path, pattern=pattern)
    if not (path.is_file() or (path / TOKENIZER).is_file()):
        raise TokenizerError(
            f"tokenizer must be a folder with {TOKENIZER}, such a file, or a file of tiktoken ranks, got {path}"
        )
    return Tokenizer.from_huggingface(path, drop_normalizer=drop_normalizer)


def learned_tokens(subject: Subject) -> list[bytes]:
    """Return the tokens that stand for text: bytes and what was learned, without special tokens."""
    return [token for token in subject.token_bytes if token]
