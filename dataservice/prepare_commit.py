"""Committing training and held-out shards together: the store and STORE/held_out have the same shards."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataservice.errors import StoreError
from dataservice.prepare_shard import PreparedShard, read_fingerprint
from dataservice.store.manifest import TokenFormat
from dataservice.store.reader import HELD_OUT_NAME, TOKENIZER_NAME
from dataservice.store.shard import INCOMING
from dataservice.store.table import ShardTable
from dataservice.store.writer import StoreWriter
from tokenizer.corpus import CorpusConfig

if TYPE_CHECKING:
    from tokenizer import Tokenizer

__all__ = ["PairedWriter", "content_settings", "place_tokenizer"]

# Where documents lie and what a fault does leave the content of a finished shard as it is.
UNUSED_SETTINGS = ("paths", "on_error")


class PairedWriter:
    """Writer of a store and, when the corpus holds documents out, of the store of those; the caller holds the lock."""

    def __init__(self, corpus: CorpusConfig, tokenizer: "Tokenizer", output: Path, planned_shards: int) -> None:
        def open_writer(path: Path, *, has_held_out: bool = False) -> StoreWriter:
            place_tokenizer(tokenizer, path)
            return StoreWriter(
                path=path,
                tokens_of=TokenFormat.of(tokenizer),
                planned_shards=planned_shards,
                settings=content_settings(corpus),
                held_out=has_held_out,
            )

        has_held_out = corpus.held_out_fraction > 0
        self._training = open_writer(output, has_held_out=has_held_out)
        self._held_out = open_writer(output / HELD_OUT_NAME) if has_held_out else None
        if self._held_out is not None:
            # Killed between its commit and the main one, the held-out store is ahead; the same rows come again.
            self._held_out.table = self._held_out.table.slice(0, len(self.table))

    @property
    def table(self) -> ShardTable:
        """Committed training shards."""
        return self._training.table

    @property
    def held_out_table(self) -> ShardTable | None:
        """Committed held-out shards."""
        return self._held_out and self._held_out.table

    def commit(self, prepared: Sequence[PreparedShard]) -> None:
        """Appends finished shards; the held-out ones first, so that a reader of the main store finds them there."""
        if self._held_out is not None:
            self._held_out.commit([shard.held_out for shard in prepared if shard.held_out is not None])
        self._training.commit([shard.record for shard in prepared])

    def close(self) -> None:
        """Removes what is not whole, and, once the store is complete, shards of inputs that are no longer there."""
        for writer in (self._training, self._held_out):
            if writer is not None:
                writer.clear_leftovers()


def place_tokenizer(tokenizer: "Tokenizer", store: Path) -> None:
    """Saves the tokenizer as STORE/tokenizer, whole or not at all; StoreError when another one is there."""
    from tokenizer.artefact import place_tokenizer as write_folder

    target = store / TOKENIZER_NAME
    if not target.exists():
        incoming = store / INCOMING / f"{TOKENIZER_NAME}.{os.getpid()}"
        incoming.parent.mkdir(parents=True, exist_ok=True)
        write_folder(tokenizer, incoming)
        incoming.rename(target)
    kept = read_fingerprint(target)
    if kept != tokenizer.fingerprint:
        raise StoreError(
            f"tokenizer of store {store} must be the one that it was begun with ({kept}), got {tokenizer.fingerprint}; "
            f"use {target}, or write to another store"
        )


def content_settings(corpus: CorpusConfig) -> dict[str, Any]:
    """The settings that the content of a store depends on, as JSON has them."""
    settings = {name: value for name, value in asdict(corpus).items() if name not in UNUSED_SETTINGS}
    return json.loads(json.dumps(settings))
