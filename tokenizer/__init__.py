"""BPE and source-attributed BPE: train a tokenizer on documents, save it, encode and decode.

    tokenizer.train([("text", "repository", "language"), ...], vocab_size=1000).save("out")
    tokenizer.Tokenizer.load("out").encode("text")

Names are imported when first used, so that a command line answers at once.
"""

# Before all else: from here on, Ctrl-C ends a command in one line.
from tokenizer import interrupts as _interrupts  # noqa: F401, I001

from importlib import import_module
from typing import TYPE_CHECKING

from tokenizer.errors import CorpusError, TokenizerError

if TYPE_CHECKING:
    from tokenizer import corpus
    from tokenizer.config import SPECIAL_TOKENS, TokenizerConfig
    from tokenizer.corpus import CorpusConfig, Document
    from tokenizer.encoding.streaming import StreamingDecoder
    from tokenizer.extension import extend
    from tokenizer.progress import Progress, show_progress
    from tokenizer.training import train, train_corpus
    from tokenizer.vocabulary import Tokenizer

__all__ = [
    "SPECIAL_TOKENS",
    "CorpusConfig",
    "CorpusError",
    "Document",
    "Progress",
    "StreamingDecoder",
    "Tokenizer",
    "TokenizerConfig",
    "TokenizerError",
    "corpus",
    "extend",
    "show_progress",
    "train",
    "train_corpus",
]

_MODULES = {
    "Tokenizer": "tokenizer.vocabulary",
    "StreamingDecoder": "tokenizer.encoding.streaming",
    "SPECIAL_TOKENS": "tokenizer.config",
    "extend": "tokenizer.extension",
    "CorpusConfig": "tokenizer.corpus",
    "Document": "tokenizer.corpus",
    "Progress": "tokenizer.progress",
    "TokenizerConfig": "tokenizer.config",
    "show_progress": "tokenizer.progress",
    "train": "tokenizer.training",
    "train_corpus": "tokenizer.training",
}


def __getattr__(name: str) -> object:
    if name == "corpus":
        return import_module("tokenizer.corpus")
    if name not in _MODULES:
        raise AttributeError(f"module 'tokenizer' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
