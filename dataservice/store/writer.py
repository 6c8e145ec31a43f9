"""Committing shards to a store in order: table first, manifest last, and whole stores from arrays in memory."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dataservice.errors import StoreError
from dataservice.store.files import PARTIAL_SUFFIX, FileSeal, digest_bytes, replace_file, seal_file
from dataservice.store.lock import WriterLock
from dataservice.store.manifest import MANIFEST_NAME, Manifest, TokenFormat, totals
from dataservice.store.reader import HELD_OUT_NAME, TABLE_NAME, TOKENIZER_NAME, Store
from dataservice.store.record import ShardRecord
from dataservice.store.shard import INCOMING, SHARDS, ShardWriter
from dataservice.store.table import ShardTable

__all__ = ["StoreWriter", "write_store"]


@dataclass(kw_only=True)
class StoreWriter:
    """Appends shards to the store in folder `path`; the caller holds its lock.

    The commit of a shard has three steps, each atomic: its folder is renamed into place (by `ShardWriter`, in any
    process and order), then shards.parquet is replaced, then manifest.json. Killed between any two, a reader still
    sees the last commit, and the next writer carries on.
    """

    path: Path
    tokens_of: TokenFormat
    planned_shards: int
    settings: dict[str, Any]
    held_out: bool = False
    table: ShardTable = field(init=False)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._tokenizer = self._seal_tokenizer()
        self.table = ShardTable.from_records([], root=self.tokens_of.root)
        if (self.path / MANIFEST_NAME).exists():
            store = Store.open(self.path, self.tokens_of.fingerprint)
            self._refuse_other_settings(store.manifest)
            self.table = store.shards
        self.clear_leftovers()

    def _refuse_other_settings(self, manifest: Manifest) -> None:
        for name in sorted(self.settings.keys() | manifest.settings.keys()):
            mine, theirs = self.settings.get(name), manifest.settings.get(name)
            if mine != theirs:
                raise StoreError(
                    f"{name} of store {self.path} must be {theirs!r} as when it was begun, got {mine!r}; "
                    "write to another store or give the same settings"
                )
        if self.planned_shards < manifest.shards:
            raise StoreError(
                f"input of store {self.path} must have its {manifest.shards} shards or more, got "
                f"{self.planned_shards}; name the old sources first, and new ones after them, or write to another store"
            )

    def clear_leftovers(self) -> None:
        """Removes what killed writers left unfinished, and from a complete store any shard that is not its own."""
        shutil.rmtree(self.path / INCOMING, ignore_errors=True)
        for partial in self.path.glob(f"*{PARTIAL_SUFFIX}"):
            partial.unlink()
        if len(self.table) == self.planned_shards:
            own = set(self.table.names)
            for folder in (self.path / SHARDS).glob("*"):
                if folder.name not in own:
                    shutil.rmtree(folder)

    def commit(self, records: Sequence[ShardRecord]) -> None:
        """Appends rows and makes them visible to readers, all or none."""
        table = self.table.extend(records)
        data = table.to_parquet()
        replace_file(self.path / TABLE_NAME, data)
        Manifest(
            tokens_of=self.tokens_of,
            shards=len(table),
            planned_shards=self.planned_shards,
            totals=totals(table),
            settings=self.settings,
            tokenizer=self._tokenizer,
            held_out=self.held_out,
            rows=table.row_digest(),
            table=FileSeal(len(data), digest_bytes(data)),
        ).write(self.path)
        self.table = table

    def _seal_tokenizer(self) -> dict[str, FileSeal]:
        folder = self.path / TOKENIZER_NAME
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        return {file.relative_to(folder).as_posix(): seal_file(file) for file in files}


def write_store(
    path: Path | str,
    shards: Mapping[str, Sequence[Sequence[int]]],
    tokens_of: TokenFormat,
    *,
    held_out: Mapping[str, Sequence[Sequence[int]]] | None = None,
    planned_shards: int | None = None,
) -> Store:
    """Writes a store of documents that are tokens already, and opens it.

    Args:
        path: the store's folder.
        shards: name of each shard, in store order -> its documents -> ids of each. Shards that the store has are
            kept, so that a store can be written in several calls.
        tokens_of: what the ids mean.
        held_out: the same for documents kept from training.
        planned_shards: how many shards there will be (default: these).
    """
    path = Path(path)
    planned = len(shards) if planned_shards is None else planned_shards
    with WriterLock(path):
        if held_out is not None:
            _write_shards(path / HELD_OUT_NAME, held_out, tokens_of, planned, has_held_out=False)
        _write_shards(path, shards, tokens_of, planned, has_held_out=held_out is not None)
    return Store.open(path)


def _write_shards(
    path: Path,
    shards: Mapping[str, Sequence[Sequence[int]]],
    tokens_of: TokenFormat,
    planned: int,
    *,
    has_held_out: bool,
) -> None:
    writer = StoreWriter(path=path, tokens_of=tokens_of, planned_shards=planned, settings={}, held_out=has_held_out)
    records = []
    for name, documents in list(shards.items())[len(writer.table) :]:
        offsets = np.cumsum([0, *(len(document) for document in documents)])
        ids = np.array([token for document in documents for token in document], tokens_of.dtype)
        sources = (["memory"] * len(documents), [""] * len(documents), [f"{name}/{i}" for i in range(len(documents))])
        with ShardWriter(path, name, tokens_of) as shard:
            shard.append(ids, offsets, sources, num_bytes=len(ids))
            records.append(shard.finish("memory"))
    writer.commit(records)
    writer.clear_leftovers()
