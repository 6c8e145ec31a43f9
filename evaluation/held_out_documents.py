"""Documents to evaluate on: those that a run or a store holds out, or any that can be read."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evaluation.errors import EvaluationError
from tokenizer.measures.spelling import show_count

if TYPE_CHECKING:
    from dataservice import Store
    from tokenizer.corpus import Document

__all__ = ["Documents", "find_held_out", "open_store_of", "store_documents", "take_documents"]


@dataclass(frozen=True, kw_only=True)
class Documents:
    """Texts and their sources, the same for every model."""

    documents: list["Document"]
    source: str
    """What they are, in words: "held out from STORE"."""

    @cached_property
    def num_bytes(self) -> np.ndarray:
        """int64[documents]: length of each text in UTF-8."""
        return np.array([len(document.text.encode()) for document in self.documents], np.int64)

    @cached_property
    def clusters(self) -> np.ndarray:
        """int64[documents]: number of each document's repository; a document without one is alone."""
        numbers: dict[object, int] = {}
        keys = [document.repository or index for index, document in enumerate(self.documents)]
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)

    def describe(self) -> str:
        """How many they are, and where from."""
        repositories = len({document.repository for document in self.documents if document.repository})
        of = f" of {show_count(repositories, 'repository', 'repositories')}" if repositories else ""
        size = show_count(int(self.num_bytes.sum()), "byte")
        return f"{show_count(len(self.documents), 'document')}{of} ({size}), {self.source}"


def take_documents(documents: Iterable["Document"], source: str, num_documents: int = 0, seed: int = 0) -> Documents:
    """Keep all documents that have text, or so many of them, which a digest of text and seed chooses, in their order.

    Raises:
        EvaluationError: there are none.
    """
    numbered = enumerate(document for document in documents if document.text)
    if num_documents:
        import heapq

        key = seed.to_bytes(16, "little", signed=True)

        def rank(entry: tuple[int, "Document"]) -> tuple[bytes, int]:
            return hashlib.blake2b(entry[1].text.encode(), digest_size=16, key=key).digest(), entry[0]

        numbered = sorted(heapq.nsmallest(num_documents, numbered, key=rank), key=lambda entry: entry[0])
    kept = [document for _, document in numbered]
    if not kept:
        raise EvaluationError(f"documents must be one or more, got none {source}; name others with --on or --store")
    return Documents(documents=kept, source=source)


def store_documents(store: "Store") -> Iterator["Document"]:
    """Yield the documents of the shards that a store has, as text; a shard that it has again (in a mixture) once."""
    from tokenizer.corpus import Document

    tokenizer, seen = store.tokenizer(), set()
    for shard, digest in enumerate(store.shards.digests):
        if digest in seen:
            continue
        seen.add(digest)
        # positions: (documents + 1,) of the <eod> around each.
        positions = np.asarray(store.documents(shard))
        if len(positions) < 2:
            continue
        tokens = store.read_pieces(shard, positions[:1], positions[-1:] - positions[:1])
        for source, start, end in zip(
            store.sources(shard).to_pylist(), positions[:-1] - positions[0], positions[1:] - positions[0], strict=True
        ):
            text = tokenizer.decode(tokens[start + 1 : end])
            yield Document(text, source["repository"], source["language"], source["path"])


def open_store_of(run: Path) -> "Store":
    """The store that a run trains on, as far as it is made.

    Raises:
        EvaluationError: the folder is no run that has been trained.
        DataError: the store is gone.
    """
    from training.data import find_store
    from training.weights import is_run, open_run

    if not is_run(run):
        raise EvaluationError(
            f"documents must be named with --on or --store for a folder of transformers, got none for {run}"
        )
    config, tokenizer = open_run(run)
    if config.data.store is None and not config.corpus.paths:
        raise EvaluationError(
            f"documents must be named with --on or --store, got none: {run} was not trained here, so it holds none out"
        )
    return find_store(config, run, tokenizer)


def find_held_out(runs: list[Path]) -> tuple["Store", str]:
    """The store of the documents that all of several runs hold out, and what they are in words.

    Raises:
        EvaluationError: a run holds out others, or none.
    """
    stores = [open_store_of(run) for run in runs]
    for run, store in zip(runs, stores, strict=True):
        if store.held_out is None:
            raise EvaluationError(
                f"documents must be held out of the store of {run}, got none; name others with --on, or train with "
                "corpus.held_out_fraction"
            )
    first = stores[0].held_out
    assert first is not None
    for run, store in zip(runs[1:], stores[1:], strict=True):
        assert store.held_out is not None
        if store.path != stores[0].path and set(_sources(store.held_out)) != set(_sources(first)):
            raise EvaluationError(
                f"models must hold out the same documents, got others in {run} than in {runs[0]}; name documents that "
                "none was trained on with --on or --store"
            )
    return first, f"held out from {stores[0].path}"


def _sources(store: "Store") -> Iterator[tuple[str, str, str]]:
    for shard in range(len(store.shards)):
        for source in store.sources(shard).to_pylist():
            yield source["repository"], source["language"], source["path"]
