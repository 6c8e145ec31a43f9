"""Which single languages are compared, with which vocabularies and thresholds: a rule over what there is of each.

- A language is compared if at least 8 repositories to train on and 3 to measure on have it: fewer leave R nothing to
  tell, and no spread.
- Its vocabulary is the largest power of two that leaves 512 bytes of training text a token: 3.26 MB of Java carry
  4,096 tokens. (The whole corpus leaves 2,172 to each of 32,768; the paper's sample some 4,300.)
- Its thresholds of R are 1, 2, 4, ... up to a quarter of its repositories: 14 of Java carry 1 and 2. The paper's 30
  would ask for more than there are.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tokenizer.corpus import Document

__all__ = ["Language", "choose_languages", "describe"]

LEAST_TRAINED, LEAST_MEASURED = 8, 3
BYTES_PER_TOKEN = 512
LARGEST_PART = 4
"""A threshold is at most a quarter of the repositories."""
LEAST_VOCABULARY = 512
"""Bytes, special tokens, and merges worth the name."""


class Language(NamedTuple):
    """A language that is compared alone."""

    name: str
    num_bytes: int
    """To train on."""
    num_repositories: int
    vocab_size: int
    thresholds: tuple[int, ...]
    """Of R."""


def choose_languages(
    trained: Iterable[Document], measured: Iterable[Document], most_tokens: int, most: int | None = None
) -> list[Language]:
    """The languages that are large enough, the most bytes first; at most `most` of them, of `most_tokens` tokens."""
    sizes, repositories = describe(trained)
    _, others = describe(measured)
    chosen = []
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        vocab_size = min(most_tokens, 1 << (max(1, sizes[name] // BYTES_PER_TOKEN).bit_length() - 1))
        count = len(repositories[name])
        is_large = count >= LEAST_TRAINED and len(others.get(name, ())) >= LEAST_MEASURED
        if name and is_large and vocab_size >= LEAST_VOCABULARY:
            thresholds = tuple(1 << power for power in range((count // LARGEST_PART).bit_length()))
            chosen.append(Language(name, sizes[name], count, vocab_size, thresholds))
    return chosen[:most]


def describe(documents: Iterable[Document]) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Bytes and repositories of each language."""
    sizes: dict[str, int] = defaultdict(int)
    repositories: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        sizes[document.language] += len(document.text.encode())
        repositories[document.language].add(document.repository)
    return sizes, repositories
