"""Reading a store: what is committed, memory-mapped, and checked against its digests before it is first used."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataservice.errors import DataError, IngestError, StoreError, WaitCancelledError
from dataservice.store.files import damaged, missing
from dataservice.store.gathering import gather_pairs, gather_pieces, gather_rows
from dataservice.store.manifest import Manifest
from dataservice.store.maps import MapCache, map_array
from dataservice.store.origin import LocalOrigin, Origin
from dataservice.store.record import ShardRecord
from dataservice.store.removal import Removal
from dataservice.store.shard import RECORD_NAME, SHARDS
from dataservice.store.span import Span
from dataservice.store.table import ShardTable

if TYPE_CHECKING:
    from tokenizer import Tokenizer

__all__ = ["HELD_OUT_NAME", "TABLE_NAME", "TOKENIZER_NAME", "Store"]

TABLE_NAME = "shards.parquet"
TOKENIZER_NAME = "tokenizer"
HELD_OUT_NAME = "held_out"
# Each map costs the process a mapping, of which Linux allows 65,530; file descriptors are not kept.
MAX_OPEN_MAPS = 4096

Used = TypeVar("Used")


class Store:
    """A token store, complete or growing. Reading never locks; `refresh` shows what was committed since.

    Attributes:
        path: the store's folder.
        origin: where the files of the folder come from.
        manifest: its last commit that was read.
        shards: the table of the committed shards.
        held_out: the store of held-out documents with the same shards, or None.
        writer_fault: says in one line what ended the preparation of the store, or None while it goes on.
        mirrors_tokens: whether tokens are read from the folder, whatever its origin.
        bytes_at_once: the least bytes of tokens that are worth a call, where several batches can be read in one.
    """

    mirrors_tokens: ClassVar[bool] = True
    bytes_at_once: int = 1

    def __init__(
        self, path: Path, manifest: Manifest, shards: ShardTable, held_out: "Store | None", origin: Origin
    ) -> None:
        self.path = path
        self.origin = origin
        self.manifest = manifest
        self.shards = shards
        self.held_out = held_out
        self._records: dict[int, ShardRecord] = {}
        self.writer_fault: Callable[[], str | None] = self._fault_of_any_writer
        self._refreshing = threading.Lock()
        self._map = (
            lru_cache(MAX_OPEN_MAPS)(self._open_map)
            if origin.limit is None
            else MapCache(self._open_map, origin.limit, self._touch)
        )
        self._span = self._make_span()
        self._sources = lru_cache(16)(self._read_sources)

    @classmethod
    def open(cls, path: Path | str, fingerprint: str | None = None, origin: Origin | None = None) -> Self:
        """Opens the store in folder `path`.

        Args:
            path: the store's folder.
            fingerprint: that of the tokenizer it must have been made with; None takes any.
            origin: where its files come from; None: from the folder.

        Raises StoreError when there is no store, it is damaged, or of another tokenizer (both fingerprints named).
        """
        path = Path(path)
        origin = origin or LocalOrigin(path)
        origin.update()
        manifest = Manifest.read(path)
        if fingerprint is not None and manifest.tokens_of.fingerprint != fingerprint:
            raise StoreError(
                f"tokenizer of store {path} must have fingerprint {fingerprint}, got {manifest.tokens_of.fingerprint}; "
                "use the tokenizer that made the store, or prepare another store"
            )
        empty = ShardTable.from_records([], root=manifest.tokens_of.root)
        held_out = None
        if manifest.held_out:
            apart = origin.within(HELD_OUT_NAME)
            held_out = cls.open(path / HELD_OUT_NAME, manifest.tokens_of.fingerprint, apart)
        return cls(path, manifest, read_table(path, manifest, empty), held_out, origin)

    @property
    def dtype(self) -> np.dtype:
        """dtype of the tokens: uint16 or uint32."""
        return self.manifest.tokens_of.dtype

    @property
    def is_complete(self) -> bool:
        """Whether every planned shard was committed when the manifest was last read."""
        return self.manifest.is_complete

    @property
    def num_planned_shards(self) -> int:
        """Shards the store will have when complete."""
        return self.manifest.planned_shards

    def prefix_digest(self, num_shards: int) -> str:
        """Digest (hex) of the data of the first `num_shards` shards: the same, prepared at once or streamed."""
        return self.shards.prefix_digest(num_shards)

    def refresh(self) -> None:
        """Reads what was committed since the store was opened or last refreshed; any thread may ask."""
        with self._refreshing:
            self._refresh()

    def _refresh(self) -> None:
        self.origin.update()
        manifest = Manifest.read(self.path)
        if manifest == self.manifest:
            return
        if manifest.tokens_of != self.manifest.tokens_of:
            raise StoreError(
                f"store {self.origin.place} must keep its tokenizer, got another; restart on the new store"
            )
        # The held-out store is committed first, so read after this manifest it has these shards at least.
        if self.held_out is not None:
            self.held_out.refresh()
        self.shards = read_table(self.path, manifest, self.shards)
        self.manifest = manifest

    def wait_for_shards(
        self, count: int, timeout: float | None = None, is_cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        """Returns once `count` shards (or all that are planned) are committed.

        Raises IngestError when nobody writes the store any more, or after `timeout` seconds; WaitCancelledError soon
        after `is_cancelled` has become true.
        """
        place, deadline = self.origin.place, None if timeout is None else time.monotonic() + timeout
        while True:
            # Asked before reading, so that a writer's last commit before its end is not taken for its death.
            fault = self.writer_fault()
            self.refresh()
            if len(self.shards) >= min(count, self.num_planned_shards):
                return
            if fault is not None:
                raise IngestError(fault)
            if is_cancelled():
                raise WaitCancelledError(
                    f"store {self.origin.place} must have {count} shards, got nobody who waits for them"
                )
            if deadline is not None and time.monotonic() > deadline:
                raise IngestError(
                    f"store {place} must have {count} shards in {timeout} s, got {len(self.shards)}; wait longer"
                )
            time.sleep(self.origin.poll_seconds)

    def read_rows(self, shards: np.ndarray | int, starts: np.ndarray, width: int) -> np.ndarray:
        """Stretches of `width` tokens, (n, width) in the store's dtype: row i starts at starts[i] of shards[i].

        `shards` is int64[n], or one shard for all; starts are int64[n]. Raises IndexError for what is not in a shard.
        """
        return gather_rows(*self._locate(shards, starts, width), width)

    def read_pieces(self, shards: np.ndarray | int, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Stretches of any lengths, joined: (sum of lengths,) in the store's dtype; arguments as of `read_rows`."""
        return gather_pieces(*self._locate(shards, starts, lengths), lengths)

    def read_pairs(
        self, shards: np.ndarray | int, starts: np.ndarray, lengths: np.ndarray | int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets: stretches at `starts`, and at one token after them.

        Two arrays, (n, lengths) where all are of one length, else joined; each of 1 token or more.
        """
        return gather_pairs(*self._locate(shards, starts, lengths + 1), lengths)

    def tokens(self, shard: int) -> np.ndarray:
        """Memory map of a shard's tokens: uint16 or uint32, `<eod> document <eod> ... document <eod>`."""
        return self._map(shard, "tokens.npy", self.dtype)

    def documents(self, shard: int) -> np.ndarray:
        """Memory map, int64[documents + 1]: position of the `<eod>` before each document, and of the last one."""
        return self._map(shard, "documents.npy", np.dtype("<i8"))

    def drop_maps(self) -> None:
        """Lets go of the maps of a store that lies in its folder: they keep the space of files that were removed."""
        if not isinstance(self._map, MapCache):
            self._map.cache_clear()
            self._span = self._make_span()

    def mirrored_bytes(self) -> np.ndarray:
        """About how many bytes of each shard are brought to this disk to read it; int64[shards], 0 of what is here."""
        if self.origin.limit is None or not self.mirrors_tokens:
            return np.zeros(len(self.shards), np.int64)
        # A position for each document beside the tokens; sources are small.
        return self.shards.tokens * self.dtype.itemsize + self.shards.documents * 8

    def expect_documents(self, shards: Sequence[int]) -> None:
        """Says of which shards the documents will be asked next, in case that there is something to fetch."""

    def sources(self, shard: int) -> pa.Table:
        """Columns repository, language, path: a row for each document of a shard."""
        return self._sources(shard)

    def tokenizer(self) -> "Tokenizer":
        """The tokenizer that made the store."""
        from tokenizer import Tokenizer

        for name, seal in self.manifest.tokenizer.items():
            self.origin.obtain(f"{TOKENIZER_NAME}/{name}", seal)
        return Tokenizer.load(self.path / TOKENIZER_NAME)

    def record(self, shard: int) -> ShardRecord:
        """The commit record of a shard, read once."""
        record = self._records.get(shard)
        if record is None:
            record = self._records[shard] = self.read_record(shard)
        return record

    def check_file(self, shard: int, name: str) -> Path:
        """Path of a file of a shard; StoreError that names it when its bytes are not those that were committed."""
        try:
            return self.origin.obtain(self._name(shard, name), self.record(shard).files[name])
        except StoreError as error:
            removal = Removal.read(self.path)
            if removal is None or removal.holds(shard):
                raise
            raise StoreError(
                f"shard {self.shards.names[shard]} must be there, but was removed behind training with the first "
                f"{removal.shards} (data.keep_windows); only later ones can be read, by the run that they belong to"
            ) from error

    def read_record(self, shard: int) -> ShardRecord:
        """The commit record of a shard, read from its file and checked against the table."""
        digest = self.shards.digests[shard]

        def parse(data: bytes) -> ShardRecord:
            try:
                record = ShardRecord.from_json(data)
            except ValueError as error:
                raise ValueError("a commit record") from error
            if record.content != digest:
                raise ValueError(f"the record of data with digest {digest[:12]}")
            return record

        return self.origin.load(self._name(shard, RECORD_NAME), parse)

    def _make_span(self) -> Span:
        return Span(self.tokens, self.dtype, MAX_OPEN_MAPS)

    def _locate(
        self, shards: np.ndarray | int, starts: np.ndarray, lengths: np.ndarray | int
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Span.locate`."""
        starts = np.asarray(starts)
        each = np.full(len(starts), shards) if isinstance(shards, int) else np.asarray(shards)
        return self._span.locate(each, starts, lengths)

    def _name(self, shard: int, file: str) -> str:
        if not isinstance(shard, int | np.integer) or not 0 <= shard < len(self.shards):
            raise DataError(f"shard must be a number below {len(self.shards)}, got {shard!r}; see Store.shards.names")
        return f"{SHARDS}/{self.shards.names[shard]}/{file}"

    def _open_map(self, shard: int, name: str, dtype: np.dtype) -> np.ndarray:
        if name == "tokens.npy":
            # A damaged shard is not trained on, whichever of its files is damaged.
            self.check_file(shard, "sources.parquet")
        path, array = self._use_file(shard, name, lambda path: (path, map_array(path)))
        if array.ndim != 1 or array.dtype != dtype:
            raise damaged(path, f"one dimension of {dtype.name}")
        return array

    def _touch(self, shard: int, name: str, dtype: np.dtype) -> None:
        self.origin.touch(self._name(shard, name))

    def _read_sources(self, shard: int) -> pa.Table:
        return self._use_file(shard, "sources.parquet", read_parquet)

    def _use_file(self, shard: int, name: str, use: Callable[[Path], Used]) -> Used:
        """What `use` makes of a file of a shard, which is fetched again where a full mirror has just removed it."""
        while True:
            path = self.check_file(shard, name)
            with suppress(FileNotFoundError):
                return use(path)

    def _fault_of_any_writer(self) -> str | None:
        if self.origin.has_writer():
            return None
        return (
            f"store {self.origin.place} must have {self.num_planned_shards} shards or be in preparation, got "
            f"{len(self.shards)} and no process that prepares it; run prepare again to carry on"
        )


def read_parquet(path: Path) -> pa.Table:
    """The table in a file, whose descriptor is closed again."""
    with pq.ParquetFile(path) as file:
        return file.read()


def read_table(path: Path, manifest: Manifest, known: ShardTable) -> ShardTable:
    """The manifest's rows of shards.parquet, which must begin with those already `known`."""
    table_path = path / TABLE_NAME
    try:
        table = ShardTable.from_parquet(table_path.read_bytes(), manifest.shards, root=known.root)
    except FileNotFoundError as error:
        raise missing(table_path) from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(table_path, f"{manifest.shards} rows of shards") from error
    if table.row_digest() != manifest.rows:
        raise damaged(table_path, f"the rows with digest {manifest.rows[:12]}")
    first = table.slice(0, len(known))
    if (first.names, first.digests) != (known.names, known.digests):
        raise StoreError(f"store {path} must keep its first {len(known)} shards, got others; restart on the new store")
    return table
