"""How a text is split, and what a token is made of and is part of."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.measures.merge_graph import MergeGraph, make_graph
from tokenizer.measures.spelling import read_token
from tokenizer.splitting.documents import split_documents
from tokenizer.vocabulary import NUM_BYTES, Tokenizer

__all__ = ["Inspector", "SplitText", "TokenReport", "Word"]


class Word(NamedTuple):
    """A piece of text that merges never cross, and its tokens."""

    data: bytes
    ids: tuple[int, ...]


class SplitText(NamedTuple):
    """A text as a tokenizer sees it."""

    text: str
    words: tuple[Word, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of UTF-8."""
        return sum(len(word.data) for word in self.words)

    @property
    def ids(self) -> tuple[int, ...]:
        """Its tokens, in order."""
        return tuple(number for word in self.words for number in word.ids)


@dataclass(frozen=True, kw_only=True)
class TokenReport:
    """What a vocabulary says of one of its tokens; tokens are named by their ids."""

    id: int
    kind: Literal["byte", "learned", "special"]
    data: bytes
    """The text that it stands for, or, of a special token, its name."""
    merge: int | None
    """Number of the merge that makes it, from 0."""
    parts: tuple[int, int] | None
    """What that merge joins."""
    frequency: int | None
    """F of the merge when it was made; None for tokens that no merge makes, and where nobody knows."""
    repositories: int | None
    """R, likewise."""
    languages: int | None
    """L, likewise."""
    is_leaf: bool
    """Whether a merge makes it, and nothing is made of it."""


class Inspector:
    """Answers questions about the tokens of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        # places: (vocab_size,), for each id the number of the token in the order of merges
        self._places = np.argsort(tokenizer.ids)

    @cached_property
    def _graph(self) -> MergeGraph:
        return make_graph(self.tokenizer.pairs)

    @cached_property
    def _by_bytes(self) -> dict[bytes, int]:
        return {token: number for number, token in enumerate(self.tokenizer.token_bytes) if token}

    def split(self, text: str) -> SplitText:
        """Split a text into words and tokens, nothing in it special; raises TokenizerError for a lone surrogate."""
        words = split_documents([text], self.tokenizer.pattern)
        ids, _ = self.tokenizer.encode_batch([text])
        ends = np.cumsum(self.tokenizer.token_lengths[ids])
        # bounds: (words + 1,), the number of each word's first token
        bounds = np.searchsorted(ends, words.starts, side="right")
        data, numbers = words.data.tobytes(), ids.tolist()
        return SplitText(
            text,
            tuple(
                Word(data[start:end], tuple(numbers[first:last]))
                for start, end, first, last in zip(
                    words.starts[:-1].tolist(), words.starts[1:].tolist(), bounds[:-1], bounds[1:], strict=True
                )
            ),
        )

    def find(self, name: str) -> int:
        """Return the id of a token that is named by its id, its bytes as `show_token` spells them, or as special.

        Raises TokenizerError for what is no token.
        """
        if name.isascii() and name.isdigit() and int(name) < self.tokenizer.vocab_size:
            return int(name)
        if name in self.tokenizer.special_tokens:
            return self.tokenizer.special_tokens[name]
        token = read_token(name)
        if token not in self._by_bytes:
            kinds = f"an id below {self.tokenizer.vocab_size}, the bytes of a token or a special token"
            raise TokenizerError(f"token must be {kinds}, got {name!r}; inspect it as a text to see its tokens")
        return self._by_bytes[token]

    def describe(self, number: int) -> TokenReport:
        """Report on the token of an id."""
        tokenizer, place = self.tokenizer, int(self._places[number])
        merge = place - NUM_BYTES if NUM_BYTES <= place < NUM_BYTES + len(tokenizer.pairs) else None
        is_special = place >= NUM_BYTES + len(tokenizer.pairs)
        made = tokenizer.merges if merge is not None else None
        known = made if made is not None and made.frequency[merge] else None
        return TokenReport(
            id=number,
            kind="special" if is_special else "byte" if merge is None else "learned",
            data=tokenizer.decode_bytes([number]),
            merge=merge,
            parts=None if merge is None else self._ids(tokenizer.pairs[merge].tolist()),
            frequency=known and int(known.frequency[merge]),
            repositories=known and int(known.repositories[merge]),
            languages=known and int(known.languages[merge]),
            is_leaf=merge is not None and self._graph.is_leaf(place),
        )

    def part_of(self, number: int) -> tuple[int, ...]:
        """Ids of the tokens that a merge makes of this one and another, in the order of merges."""
        return self._ids(self._graph.made_of(int(self._places[number])))

    def contained_in(self, number: int) -> tuple[int, ...]:
        """Ids of the tokens that have this one anywhere in the merges that make them, in the order of merges."""
        return self._ids(self._graph.containing(int(self._places[number])))

    def _ids(self, places: list[int]) -> tuple:
        return tuple(self.tokenizer.ids[places].tolist())
