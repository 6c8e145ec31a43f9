"""Documents, and the repositories that are drawn for a seed."""

from collections.abc import Collection, Iterable

import numpy as np

from tokenizer.corpus import CorpusConfig, Document, list_shards, read_shard

__all__ = ["draw_documents", "of_repositories", "read_documents", "split_repositories"]

LARGEST_PART = 16
"""A document makes up at most a sixteenth of the bytes it is drawn for; longer ones are left out."""
_ORDER_SEED = 20260414


def read_documents(paths: Collection[str]) -> list[Document]:
    """All documents of paths, in their order."""
    config = CorpusConfig(paths=tuple(paths))
    return [document for shard in list_shards(config) for document in read_shard(shard, config)]


def split_repositories(documents: Iterable[Document], seed: int, share: float) -> tuple[set[str], set[str]]:
    """A share of the repositories, drawn by seed, and the others; one at least on either side where there are two."""
    names = sorted({document.repository for document in documents})
    order = np.random.default_rng((_ORDER_SEED, seed)).permutation(len(names))
    count = min(max(1, round(share * len(names))), max(1, len(names) - 1))
    return {names[number] for number in order[:count]}, {names[number] for number in order[count:]}


def of_repositories(documents: Iterable[Document], names: Collection[str]) -> list[Document]:
    """The documents of some repositories."""
    return [document for document in documents if document.repository in names]


def draw_documents(documents: list[Document], num_bytes: float, seed: int) -> list[Document]:
    """Documents in random order that make up at most `num_bytes`; one that does not fit into what is left is passed."""
    left, chosen = num_bytes, []
    for number in np.random.default_rng((_ORDER_SEED, seed)).permutation(len(documents)).tolist():
        size = len(documents[number].text.encode())
        if 0 < size <= min(left, num_bytes / LARGEST_PART):
            chosen.append(documents[number])
            left -= size
    return chosen
