"""What a tokenizer is to be: the settings of its training."""

from dataclasses import dataclass
from typing import Literal, get_args

from tokenizer.errors import TokenizerError

__all__ = ["EXTENSION_SETTINGS", "SPECIAL_TOKENS", "TokenizerConfig"]

SPECIAL_TOKENS: tuple[str, ...] = ("<eot>", "<eod>", "<eos>", "<pad>", "<unk>", "<mask>", "<cls>", "<sep>")
"""Special tokens by default; ``<eod>`` stands before, between and after the documents of a store."""

EXTENSION_SETTINGS = ("priority", "min_repositories", "min_languages", "ties", "max_token_length", "max_words")
"""Settings with which a tokenizer may be extended; the others stay its own."""

NUM_BYTES = 256
MOST_MERGES = (1 << 21) - 257
"""So that, in the encoder, both ids of a pair and its rank fit into 63 bits together."""

Priority = Literal["auto", "F", "F*L", "F*log(R+1)", "F*logR", "F*log(R+1)*L", "F*logR*L"]
Ties = Literal["ids", "hf", "first"]


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """Which tokenizer to load, or how to train one."""

    path: str | None = None
    """Folder of an existing tokenizer; null: train one on the corpus."""
    vocab_size: int = 32768
    """Tokens in all: 256 bytes, merges, special and reserved tokens."""
    priority: Priority = "auto"
    """What the next merge maximises: F frequency, R repositories, L languages of a pair. F alone is plain BPE; auto is
    F*logR*L when the corpus has two or more languages, else F*logR; F when it has one repository."""
    min_repositories: int = 1
    """Pairs found in fewer repositories are never merged."""
    min_languages: int = 1
    """Pairs found in fewer languages are never merged."""
    pattern: str = "gpt4"
    """How text is split into words that merges never cross: gpt4, gpt2, llama3, qwen2, o200k, none, or a regular
    expression, whose gaps are words too; other libraries may read that otherwise."""
    ties: Ties = "ids"
    """Which of equally good pairs is merged: ids takes the smaller (left id, right id), as rustbpe does; hf the same
    with bytes in the order of Hugging Face's alphabet, as tokenizers does; first the pair that occurs first in the
    documents, as minbpe does."""
    max_token_length: int | None = None
    """Longest token in bytes; null: no limit."""
    max_words: int | None = None
    """Distinct words to keep while counting, to bound memory: when there are more, the rarest are left out and
    reported, and the result depends on the order of the documents; null: no limit."""
    special_tokens: tuple[str, ...] = SPECIAL_TOKENS
    """Special tokens, at the last ids but for the reserved ones."""
    num_reserved: int = 3
    """Tokens <|unused_token_N|> at the very end that never occur: a reference for under-trained embeddings."""

    def __post_init__(self) -> None:
        self._check_types()
        names = self.all_special_tokens
        _check_names(names)
        smallest = NUM_BYTES + len(names)
        if self.vocab_size < smallest:
            raise TokenizerError(
                f"vocab_size must be at least {smallest} (256 bytes and {len(names)} special tokens), "
                f"got {self.vocab_size}"
            )
        if self.num_merges > MOST_MERGES:
            raise TokenizerError(
                f"vocab_size must be at most {self.vocab_size - self.num_merges + MOST_MERGES} "
                f"({MOST_MERGES} merges), got {self.vocab_size}"
            )
        for name, known in (("priority", get_args(Priority)), ("ties", get_args(Ties))):
            if getattr(self, name) not in known:
                raise TokenizerError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        for name in ("min_repositories", "min_languages"):
            if getattr(self, name) < 1:
                raise TokenizerError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_words is not None and self.max_words < 1:
            raise TokenizerError(f"max_words must be null or at least 1, got {self.max_words}")
        if self.max_token_length is not None and self.max_token_length < 2:
            raise TokenizerError(f"max_token_length must be null or at least 2 bytes, got {self.max_token_length}")
        if self.num_reserved < 0:
            raise TokenizerError(f"num_reserved must be at least 0, got {self.num_reserved}")

    def _check_types(self) -> None:
        optional = [name for name in ("max_words", "max_token_length") if getattr(self, name) is not None]
        for name in ("vocab_size", "num_reserved", "min_repositories", "min_languages", *optional):
            if type(getattr(self, name)) is not int:
                raise TokenizerError(f"{name} must be an int, got {getattr(self, name)!r}")
        names = self.special_tokens
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise TokenizerError(f"special_tokens must be a tuple of strings, got {names!r:.80}")

    @property
    def all_special_tokens(self) -> tuple[str, ...]:
        """Special tokens and reserved ones, in the order of their ids."""
        return self.special_tokens + tuple(f"<|unused_token_{n}|>" for n in range(self.num_reserved))

    @property
    def reserved_spellings(self) -> tuple[bytes, ...]:
        """What no learned token may spell, so that every format can hold the special tokens beside them."""
        from tokenizer.interchange.special_names import spelled_bytes

        spellings = [spelling for name in self.all_special_tokens for spelling in (name.encode(), spelled_bytes(name))]
        return tuple(spelling for spelling in spellings if spelling is not None and len(spelling) > 1)

    @property
    def num_merges(self) -> int:
        """Merges that fill the vocabulary."""
        return self.vocab_size - NUM_BYTES - len(self.all_special_tokens)


def _check_names(names: tuple[str, ...]) -> None:
    """Refuse names of special tokens that every vocabulary would refuse, before it is trained."""
    from tokenizer.interchange.special_names import is_apart

    if len(set(names)) != len(names) or "" in names:
        raise TokenizerError(f"special_tokens must be different and not empty, got {list(names)}")
    byte_tokens = {bytes([byte]) for byte in range(NUM_BYTES)}
    for name in names:
        if not name.isascii() and name != name.encode(errors="ignore").decode():
            raise TokenizerError(f"special_tokens must be text, got {name!r} with a lone surrogate")
        if not is_apart(name, byte_tokens):
            raise TokenizerError(f"special_tokens must differ from the tokens of bytes, got {name!r}; rename it")
