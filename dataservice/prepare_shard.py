"""The task of preparing: one input shard becomes one shard of the store, whoever does it and however often."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dataservice.errors import StoreError
from dataservice.store.manifest import TokenFormat
from dataservice.store.reader import HELD_OUT_NAME, TOKENIZER_NAME
from dataservice.store.record import ShardRecord
from dataservice.store.shard import ShardWriter, read_finished
from tokenizer.corpus import CorpusConfig, Document, InputShard, is_held_out, read_shard

if TYPE_CHECKING:
    from tokenizer import Tokenizer

__all__ = ["PreparedShard", "ShardTask", "find_prepared", "prepare_shard"]

# Text is encoded in pieces of about this size: memory stays bounded, whatever the size of an input shard.
BATCH_CHARACTERS = 1 << 21
BATCH_DOCUMENTS = 1 << 14


@dataclass(frozen=True, kw_only=True)
class ShardTask:
    """What a worker process needs to prepare one shard of the store in folder `store`."""

    store: Path
    shard: InputShard
    corpus: CorpusConfig
    tokens_of: TokenFormat


LINES_KEPT = 5
"""Documents and files that a shard left out and of which it says why."""


@dataclass(frozen=True, kw_only=True)
class PreparedShard:
    """Commit records of a finished shard; the seconds that it took, and what it left out, in this run."""

    record: ShardRecord
    held_out: ShardRecord | None
    seconds: float = 0.0  # 0 when it was there
    left_out: tuple[str, ...] = ()  # a line for each of the first


def find_prepared(task: ShardTask) -> PreparedShard | None:
    """The finished shard of an earlier run over the same input, or None."""
    record = read_finished(task.store, task.shard.name, task.shard.identity)
    if record is None or not task.corpus.held_out_fraction:
        return record and PreparedShard(record=record, held_out=None)
    held_out = read_finished(task.store / HELD_OUT_NAME, task.shard.name, task.shard.identity)
    return held_out and PreparedShard(record=record, held_out=held_out)


def prepare_shard(task: ShardTask) -> PreparedShard:
    """Reads, tokenizes and writes a shard, unless that was done before.

    Raises the errors of the corpus, and OSError when the store cannot be written (a full disk, say); either leaves no
    part of the shard behind.
    """
    start = time.perf_counter()
    prepared = find_prepared(task)
    if prepared is not None:
        return prepared
    skipped: list[str] = []
    record, held_out = _write_shard(task, skipped)
    seconds = time.perf_counter() - start
    return PreparedShard(record=record, held_out=held_out, seconds=seconds, left_out=tuple(skipped[:LINES_KEPT]))


def _write_shard(task: ShardTask, skipped: list[str]) -> tuple[ShardRecord, ShardRecord | None]:
    name, identity = task.shard.name, task.shard.identity
    tokenizer = load_tokenizer(task.store / TOKENIZER_NAME, task.tokens_of.fingerprint)
    hashes = bytearray()
    with ExitStack() as stack:
        writers = [stack.enter_context(ShardWriter(task.store, name, task.tokens_of))]
        if task.corpus.held_out_fraction:
            writers.append(stack.enter_context(ShardWriter(task.store / HELD_OUT_NAME, name, task.tokens_of)))
        for documents in batched(read_shard(task.shard, task.corpus, skipped=skipped)):
            held_out = [is_held_out(document, task.corpus) for document in documents]
            for chosen, writer in enumerate(writers):
                _append(writer, tokenizer, [d for d, held in zip(documents, held_out, strict=True) if held == chosen])
            hashes += b"".join(hash_text(document.text) for document in documents if document.text)
        # The training shard comes last: where it is, its held-out one is.
        held_out_record = writers[1].finish(identity) if len(writers) > 1 else None
        duplicates = count_duplicates(hashes)
        return writers[0].finish(identity, duplicates=duplicates, skipped=len(skipped)), held_out_record


def _append(writer: ShardWriter, tokenizer: "Tokenizer", documents: list[Document]) -> None:
    if documents:
        ids, offsets = tokenizer.encode_batch([document.text for document in documents])
        num_bytes = sum(len(document.text.encode()) for document in documents)
        sources = [[getattr(d, column) for d in documents] for column in ("repository", "language", "path")]
        writer.append(ids, offsets, sources, num_bytes)


def batched(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Lists of documents of about BATCH_CHARACTERS each; cut by their sizes alone, so always at the same places."""
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if characters >= BATCH_CHARACTERS or len(batch) == BATCH_DOCUMENTS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def hash_text(text: str) -> bytes:
    """128-bit hash of a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def count_duplicates(hashes: bytes | bytearray) -> int:
    """How many 16-byte hashes of a joined list were met before in it.

    >>> count_duplicates(b"a" * 16 + b"b" * 16 + b"a" * 16)
    1
    """
    pairs = np.frombuffer(hashes, "<u8").reshape(-1, 2)
    ordered = pairs[np.lexsort(pairs.T)]
    return int(np.count_nonzero((ordered[1:] == ordered[:-1]).all(axis=1)))


def read_fingerprint(path: Path) -> str:
    """Fingerprint of the tokenizer in a folder."""
    from tokenizer import Tokenizer

    return Tokenizer.load(path).fingerprint


@lru_cache(maxsize=1)
def load_tokenizer(path: Path, fingerprint: str) -> "Tokenizer":
    """Loads a tokenizer once a process; StoreError when it is not the one with `fingerprint`."""
    from tokenizer import Tokenizer

    tokenizer = Tokenizer.load(path)
    if tokenizer.fingerprint != fingerprint:
        raise StoreError(
            f"tokenizer {path} must have fingerprint {fingerprint}, got {tokenizer.fingerprint}; "
            "it was changed while the store was prepared: write to another store"
        )
    return tokenizer
