"""The store of a run: a prepared one, or one made from the run's documents, cached by digest and read as it grows."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dataservice.config import DataConfig
from dataservice.errors import IngestError, StoreError
from dataservice.ingest import Ingest
from dataservice.locating import describe_small_cache, open_store
from dataservice.preparation import PHASE
from dataservice.store.files import canonical_json, digest_bytes
from dataservice.store.manifest import FORMAT, MANIFEST_NAME, TokenFormat
from dataservice.store.reader import Store
from tokenizer.corpus import CorpusConfig, InputShard, list_shards

if TYPE_CHECKING:
    from tokenizer import Progress, Tokenizer

__all__ = ["find_data", "open_data"]

POLL_SECONDS = 0.05


def open_data(
    corpus: CorpusConfig, data: DataConfig, tokenizer: "Tokenizer", *, progress: "Progress | None" = None
) -> Store:
    """Opens the store that `data` and `corpus` ask for, and returns once its first window is committed.

    With `data.store` that store is opened. Otherwise it is CACHE/stores/DIGEST, where the digest covers input shards,
    settings and tokenizer; what is missing of it is prepared by a child process, which lives no longer than this one
    and carries on where an earlier one stopped.

    Args:
        corpus: the documents; not looked at when `data.store` is given.
        data: settings of the data service.
        tokenizer: must be the one that made the store.
        progress: called as progress(phase, shards ready, shards waited for, note=...).

    Raises StoreError, IngestError or the errors of the corpus.
    """
    fingerprint = tokenizer.fingerprint
    store = _open_cached(corpus, data, tokenizer) if data.store is None else open_store(data, fingerprint)
    _wait_for_window(store, data.window_shards or store.num_planned_shards, progress)
    if store.is_complete and not store.shards.documents.any():
        raise StoreError(f"store {store.path} must hold documents to train on, got none; mend the corpus")
    if (warning := describe_small_cache(store, data)) is not None:
        print(warning, file=sys.stderr)
    return store


def find_data(corpus: CorpusConfig, data: DataConfig, tokenizer: "Tokenizer") -> Store:
    """Opens the store that `open_data` gives for the same arguments, as far as it is ready, and makes nothing.

    Raises StoreError when there is none, or the errors of the corpus.
    """
    if data.store is not None:
        return open_store(data, tokenizer.fingerprint)
    path = _cached_path(corpus, data, tokenizer)
    if not (path / MANIFEST_NAME).exists():
        raise StoreError(
            f"data.cache must hold the store of corpus.paths as they are now, got no {path}; documents that have "
            "changed are another corpus"
        )
    return Store.open(path, tokenizer.fingerprint)


def _wait_for_window(store: Store, num_shards: int, progress: "Progress | None") -> None:
    num_shards = min(num_shards, store.num_planned_shards)
    while (ready := len(store.shards)) < num_shards:
        store.wait_for_shards(ready + 1)
        if progress is not None:
            note = f"{int(store.shards.tokens.sum()):,} tokens"
            if num_shards < store.num_planned_shards:
                note += f" of the first window; {store.num_planned_shards} shards in all, made in the background"
            progress(PHASE, min(len(store.shards), num_shards), num_shards, note=note)


def _open_cached(corpus: CorpusConfig, data: DataConfig, tokenizer: "Tokenizer") -> Store:
    path = _cached_path(corpus, data, tokenizer)
    if (path / MANIFEST_NAME).exists():
        store = Store.open(path, tokenizer.fingerprint)
        if store.is_complete:
            return store
    ingest = Ingest(corpus, tokenizer, path, data)
    while not (path / MANIFEST_NAME).exists():
        fault = ingest.fault()
        if fault is not None:
            raise IngestError(fault)
        time.sleep(POLL_SECONDS)
    store = Store.open(path, tokenizer.fingerprint)
    store.writer_fault = ingest.fault
    return store


def _cached_path(corpus: CorpusConfig, data: DataConfig, tokenizer: "Tokenizer") -> Path:
    return Path(data.cache, "stores", digest_corpus(corpus, TokenFormat.of(tokenizer), list_shards(corpus)))


def digest_corpus(corpus: CorpusConfig, tokens_of: TokenFormat, shards: Sequence[InputShard]) -> str:
    """Name of the store of a corpus: equal for the same input shards, settings and tokenizer."""
    inputs = [[shard.name, shard.identity] for shard in shards]
    settings = {name: value for name, value in asdict(corpus).items() if name != "paths"}
    return digest_bytes(tokens_of.root + canonical_json([FORMAT, settings, inputs]))[:32]
