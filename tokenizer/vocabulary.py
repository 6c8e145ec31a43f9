"""The tokenizer: bytes, merges and special tokens, and what can be done with them."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tokenizer.encoding.encoder import Encoder
from tokenizer.errors import TokenizerError
from tokenizer.interchange.special_names import is_apart
from tokenizer.merging.trainer import Merges
from tokenizer.progress import Progress
from tokenizer.ragged import offsets_of, take_rows
from tokenizer.splitting.patterns import resolve_pattern

__all__ = ["Tokenizer"]

NUM_BYTES = 256


class Tokenizer:
    """A byte-level BPE tokenizer: ids 0-255 are bytes, then merges in order, then special tokens.

    An imported tokenizer may number the same tokens otherwise: ``ids`` then holds its numbers, in that order of tokens.

    Attributes:
        pairs: int32[merges, 2], merge m joins tokens ``pairs[m]`` to token 256 + m, counted in the order above.
        ids: int32[vocab_size], the id of every token in the order above.
        pattern: The regular expression that splits text into words; "" for none.
        special_tokens: Ids by name, in the order of ids. Text never becomes one unless the caller allows it.
        merges: What training knew of each merge, or None.
        provenance: How the tokenizer was made: options, corpus digest, versions.
    """

    def __init__(
        self,
        pairs: np.ndarray,
        special_tokens: Sequence[str] = (),
        pattern: str = "gpt4",
        *,
        ids: np.ndarray | None = None,
        merges: Merges | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self.pairs = np.asarray(pairs, np.int32).reshape(-1, 2)
        self.pattern = resolve_pattern(pattern)
        first = NUM_BYTES + len(self.pairs)
        in_order = np.arange(first + len(special_tokens), dtype=np.int32)
        self.ids = in_order if ids is None else np.asarray(ids, np.int32)
        if not np.array_equal(np.sort(self.ids), in_order):
            raise TokenizerError(f"ids must be 0 to {len(in_order) - 1}, each once, got others")
        self._has_own_ids = not np.array_equal(self.ids, in_order)
        self.special_tokens = dict(zip(special_tokens, self.ids[first:].tolist(), strict=True))
        self.merges = merges
        self.provenance = dict(provenance or {})
        if len(self.special_tokens) != len(special_tokens):
            raise TokenizerError(f"special_tokens must be different, got {list(special_tokens)}")
        if (self.pairs < 0).any() or (self.pairs.max(axis=1, initial=0) >= np.arange(NUM_BYTES, first)).any():
            raise TokenizerError("merges must join bytes and earlier merges, got a merge of a later token")
        learned = set(self._learned)
        if len(learned) != first:
            raise TokenizerError("merges must make different tokens, got two that spell the same bytes")
        for name in special_tokens:
            if not is_apart(name, learned):
                raise TokenizerError(f"special_tokens must differ from learned tokens, got {name!r}; rename it")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Open a tokenizer's folder; raises TokenizerError for what is none, or when its tokens were altered."""
        from tokenizer.artefact import load_tokenizer

        return load_tokenizer(Path(path))

    @classmethod
    def from_huggingface(
        cls, path: str | Path, *, special_tokens: Sequence[str] = (), drop_normalizer: bool = False
    ) -> "Tokenizer":
        """Import a ``tokenizer.json`` (or its folder) of byte-level BPE, with the same ids.

        Args:
            path: The file or its folder.
            special_tokens: More special tokens, at the ids after its last (a store needs ``<eod>``).
            drop_normalizer: Take a tokenizer that composes characters (Qwen: NFC) without that: the ids of text that is
                not in that form then differ.

        Raises TokenizerError for anything that would give other ids. Added tokens become special tokens: text never
        becomes one unless it is allowed. Tokens that a post-processor puts around a text are left to the caller.
        """
        from tokenizer.interchange.huggingface_import import import_tokenizer_json

        return import_tokenizer_json(Path(path), special_tokens, drop_normalizer=drop_normalizer)

    @classmethod
    def from_tiktoken(
        cls, path: str | Path, *, pattern: str = "gpt4", special_tokens: Sequence[str] = ()
    ) -> "Tokenizer":
        """Import a file of tiktoken ranks, with the same ids; special tokens follow the last rank.

        Raises TokenizerError for a file that is not ranks of byte-level BPE.
        """
        from tokenizer.interchange.tiktoken_ranks import import_tiktoken

        return import_tiktoken(Path(path), pattern, special_tokens)

    def save(self, path: str | Path) -> None:
        """Write the tokenizer's folder, all or nothing; an existing tokenizer there is replaced, nothing else is."""
        from tokenizer.artefact import save_tokenizer

        save_tokenizer(self, Path(path))

    @property
    def vocab_size(self) -> int:
        """Tokens in all, special ones too."""
        return NUM_BYTES + len(self.pairs) + len(self.special_tokens)

    @property
    def dtype(self) -> np.dtype:
        """Smallest of uint16 and uint32 that holds every id."""
        return np.dtype(np.uint16 if self.vocab_size <= 1 << 16 else np.uint32)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of pattern, merges, special tokens and ids: equal fingerprints give equal ids for every text."""
        digest = hashlib.sha256(b"dyadlm tokenizer 1")
        specials = "\0".join(self.special_tokens)
        parts = [self.pattern.encode(), self.pairs.astype("<i4").tobytes(), specials.encode()]
        if self._has_own_ids:
            parts.append(self.ids.astype("<i4").tobytes())
        for part in parts:
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()

    @cached_property
    def _learned(self) -> list[bytes]:
        """Bytes of the byte tokens and the merges, in order."""
        tokens = [bytes([byte]) for byte in range(NUM_BYTES)]
        for left, right in self.pairs.tolist():
            tokens.append(tokens[left] + tokens[right])
        return tokens

    def _by_id(self, tokens: list[bytes]) -> list[bytes]:
        return [tokens[place] for place in np.argsort(self.ids)] if self._has_own_ids else tokens

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """Bytes of every token by id; b"" for special tokens."""
        return self._by_id(self._learned + [b""] * len(self.special_tokens))

    @cached_property
    def token_lengths(self) -> np.ndarray:
        """Bytes of text that each token stands for, int32[vocab_size]; 0 for special tokens."""
        return np.array([len(token) for token in self.token_bytes], np.int32)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.pairs, self.pattern, self.dtype)

    @cached_property
    def _spellings(self) -> tuple[np.ndarray, np.ndarray]:
        """Bytes (flat, offsets) that decoding shows for every id: special tokens are spelled out."""
        spelled = self._by_id(self._learned + [name.encode() for name in self.special_tokens])
        return np.frombuffer(b"".join(spelled), np.uint8), offsets_of(np.array([len(token) for token in spelled]))

    def encode(self, text: str, *, allowed_special: Collection[str] = ()) -> list[int]:
        """Encode a text; names of special tokens in ``allowed_special`` become their ids, others are ordinary text.

        Raises TokenizerError for a lone surrogate and for an allowed name that is no special token.
        """
        if not isinstance(text, str):
            raise TokenizerError(f"text must be a string, got {_shown(text)}; encode_batch takes several")
        for name in allowed_special:
            if name not in self.special_tokens:
                names = ", ".join(self.special_tokens)
                raise TokenizerError(f"allowed_special must be among {names}, got {name!r}")
        if not allowed_special:
            return self.encode_ordinary(text)
        longest_first = sorted(allowed_special, key=len, reverse=True)
        pieces = re.split("(" + "|".join(map(re.escape, longest_first)) + ")", text)
        try:
            ids, offsets = self.encode_batch(pieces[::2])
        except TokenizerError:  # the same fault, by its place in the whole text
            self.encode_ordinary(text)
            raise
        encoded = ids[: offsets[1]].tolist()
        for index, name in enumerate(pieces[1::2], 1):
            encoded.append(self.special_tokens[name])
            encoded += ids[offsets[index] : offsets[index + 1]].tolist()
        return encoded

    def encode_ordinary(self, text: str) -> list[int]:
        """Encode a text in which nothing is special."""
        return self.encode_batch([text])[0].tolist()

    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, threads: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode texts, in which nothing is special, into (ids, offsets).

        The ids are the same for any number of threads (with dropout there is one).

        With ``dropout`` (BPE-dropout), every merge is passed over with that probability, so that a model sees the same
        words in many pieces; what is drawn depends on the seed, the number of the text and the place in it. Words of
        256 bytes and more are left as they are.

        ``ids`` is uint16 (uint32 for more than 65,536 tokens), ``offsets`` int64[texts + 1]: text i has
        ``ids[offsets[i] : offsets[i + 1]]``. Raises TokenizerError for a lone surrogate.
        """
        if isinstance(texts, str | bytes | Mapping | Set) or not isinstance(texts, Iterable):
            raise TokenizerError(f"texts must be strings in a sequence, got {_shown(texts)}; make a list of it")
        texts = texts if isinstance(texts, Sequence) else list(texts)
        if not all(isinstance(text, str) for text in texts):
            raise TokenizerError(f"texts must be strings in a sequence, got {_shown(texts)}")
        if not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
            raise TokenizerError(f"dropout must be from 0 to 1, got {dropout!r}")
        for name, value in (("threads", threads), ("seed", seed)):
            if not isinstance(value, int | np.integer):
                raise TokenizerError(f"{name} must be a whole number, got {value!r}")
        if threads < 1:
            raise TokenizerError(f"threads must be at least 1, got {threads}")
        if dropout:
            ids, offsets = self._encoder.encode_with_dropout(texts, dropout, seed)
        else:
            ids, offsets = self._encoder.encode(texts, threads)
        return (self.ids.astype(self.dtype)[ids] if self._has_own_ids else ids), offsets

    def encode_files(
        self,
        paths: Sequence[str | Path],
        *,
        allowed_special: Collection[str] = (),
        progress: Progress | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode text files, a document each, into (ids, offsets) as ``encode_batch`` does.

        Only some files are in memory at a time, beside the ids. Raises TokenizerError for a file that cannot be read or
        is not UTF-8, which names file and byte. Called as ``progress("encode files", files, all files)``.
        """
        from tokenizer.text_files import encode_files

        return encode_files(self, paths, allowed_special, progress)

    def encode_with_spans(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Encode a text into (ids, spans): token i stands for characters ``text[spans[i, 0] : spans[i, 1]]``.

        ``spans`` is int64[tokens, 2]; tokens that share a character all span it.
        """
        ids, _ = self.encode_batch([text])
        # character: (bytes,), the number of the character of every byte
        character = np.cumsum((np.frombuffer(text.encode(), np.uint8) & 0xC0) != 0x80) - 1
        ends = np.cumsum(self.token_lengths[ids], dtype=np.int64)
        return ids, np.stack((character[ends - self.token_lengths[ids]], character[ends - 1] + 1), axis=1)

    def decode_bytes(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Join the bytes of tokens; special tokens are spelled out. Raises TokenizerError for what is no id."""
        rows = _as_ids(ids)
        unknown = rows[(rows < 0) | (rows >= self.vocab_size)]
        if unknown.size:
            raise TokenizerError(f"token ids must be at least 0 and below {self.vocab_size}, got {unknown[0]}")
        return take_rows(*self._spellings, rows.astype(np.int64))[0].tobytes()

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Decode ids into text; bytes that are not UTF-8 show as U+FFFD."""
        return self.decode_bytes(ids).decode(errors="replace")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_encoder"}

    def __repr__(self) -> str:
        return f"Tokenizer(vocab_size={self.vocab_size}, fingerprint={self.fingerprint[:12]})"


def _as_ids(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Ids as an array of integers, of one dimension; nothing is rounded, flattened or read as a number."""
    try:
        rows = np.asarray(ids)
    except ValueError:  # rows of different lengths
        rows = np.empty((0, 0))
    if rows.ndim == 1 and rows.size == 0:
        return np.empty(0, np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TokenizerError(f"ids must be 64-bit integers of one dimension, got {_shown(ids)}")
    return rows


def _shown(value: object) -> str:
    """The beginning of a value, on one line."""
    return " ".join(repr(value).split())[:80]
