"""Checking a whole store: every byte against its digest, and every count against the data."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataservice.errors import StoreError
from dataservice.locating import as_store
from dataservice.store.files import check_sealed, damaged, digest_bytes, parse_sealed_json
from dataservice.store.reader import TABLE_NAME, TOKENIZER_NAME, Store
from dataservice.store.record import length_powers, significant
from dataservice.store.removal import Removal
from dataservice.store.shard import DATA_FILES, IDENTITY_NAME, RECORD_NAME, SHARDS, shard_folder
from dataservice.store.table import ShardTable

__all__ = ["Problem", "verify"]


class Problem(NamedTuple):
    """A file of a store that is not as it must be, and one line about it."""

    path: Path
    line: str


def verify(store: Store | str | Path) -> list[Problem]:
    """Problems of a store, those of its held-out documents included; none when all is well.

    The manifest, and the rows of shards.parquet, were checked when the store was opened. Row indexes are derived from
    shards, and not looked at; shards that were removed behind training have nothing but their commit record.
    """
    store = as_store(store)
    problems = []
    for path, check in _list_checks(store):
        try:
            check()
        except StoreError as error:
            problems.append(Problem(path, str(error)))
    return problems + (verify(store.held_out) if store.held_out is not None else [])


def _list_checks(store: Store) -> Iterator[tuple[Path, Callable[[], object]]]:
    """Each file, and what raises StoreError when it is not as it must be."""
    yield store.path / TABLE_NAME, partial(_check_table, store)
    for name, seal in store.manifest.tokenizer.items():
        yield store.path / TOKENIZER_NAME / name, partial(store.origin.obtain, f"{TOKENIZER_NAME}/{name}", seal)
    removal = Removal.read(store.path)
    for shard, name in enumerate(store.shards.names):
        folder = shard_folder(store.path, name)
        identity = f"{SHARDS}/{name}/{IDENTITY_NAME}"
        yield folder / IDENTITY_NAME, partial(store.origin.load, identity, parse_sealed_json)
        yield folder / RECORD_NAME, partial(store.read_record, shard)
        if removal is not None and not removal.holds(shard):
            continue
        for file in DATA_FILES:
            yield folder / file, partial(store.check_file, shard, file)
        yield folder, partial(_check_counts, store, shard)


def _check_table(store: Store) -> None:
    path = store.path / TABLE_NAME
    try:
        check_sealed(path, store.manifest.table)
    except StoreError as error:
        # Between the two renames of a commit the table is newer than the manifest, which opening allows for.
        data = path.read_bytes()
        num_rows = pq.read_metadata(pa.BufferReader(data)).num_rows
        try:
            ShardTable.from_parquet(data, num_rows)
        except (OSError, ValueError, pa.ArrowException):
            raise error from None
        if num_rows <= store.manifest.shards:
            raise


def _check_counts(store: Store, shard: int) -> None:
    """Compares what the record says of its files with what is in them: an error here is the writer's."""
    try:
        record, tokens, documents = store.read_record(shard), store.tokens(shard), store.documents(shard)
        num_sources = store.sources(shard).num_rows
    except StoreError:
        return  # named by the check of that file
    powers = length_powers(np.diff(documents))
    content = digest_bytes(hashlib.sha256(tokens.data).digest() + hashlib.sha256(documents.data).digest())
    agrees = (
        np.array_equal(np.flatnonzero(tokens == store.manifest.tokens_of.eod), documents)
        and int(tokens.max()) < store.manifest.tokens_of.vocab_size
        and (len(tokens), len(documents) - 1, num_sources) == (record.tokens, record.documents, record.documents)
        and (*map(significant, powers), content) == (record.digits, record.multiples, record.content)
    )
    if not agrees:
        raise damaged(shard_folder(store.path, record.name), "files that agree with each other")
