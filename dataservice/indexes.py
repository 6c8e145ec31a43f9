"""Row indexes of shards: derived from the documents' positions, and cached in STORE/indexes/."""

import os
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from dataservice.buckets import buckets
from dataservice.config import DataConfig
from dataservice.errors import StoreError
from dataservice.pieces import PiecedRows, ShardRows, num_rows
from dataservice.sequences import count_by_table, has_pieces, make_rows
from dataservice.store import Store
from dataservice.store.demand import has_demand, raise_demand
from dataservice.store.files import PARTIAL_SUFFIX
from dataservice.store.removal import Removal
from dataservice.store.table import ShardTable
from dataservice.windows import Windows

__all__ = ["RowIndexes", "index_name", "rows_name"]

_CACHE_BYTES = 1 << 29
# Shards whose documents are fetched together where they lie elsewhere.
_SHARDS_AHEAD = 32


class RowIndexes:
    """The rows of every shard of `store`, made when first asked for; the last ones used stay in memory.

    A file of the cache is named after the shard's digest and carries checksums, so one that is stale, cut short or
    damaged is made again. A store that cannot be written to is read without a cache. Waiting for shards in the making
    ends with WaitCancelledError once `is_cancelled` is true.
    """

    def __init__(self, store: Store, config: DataConfig, *, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        self._store = store
        self._config = config
        self._is_cancelled = is_cancelled
        self._pieced = tuple(has_pieces(bucket, config) for bucket in buckets(config))
        self._folder = store.path / "indexes" / rows_name(config)
        self._recent: OrderedDict[int, ShardRows] = OrderedDict()
        self._recent_bytes = 0
        # A writer that asks has asked since before there was a store to open.
        self._tells_need = has_demand(store.path)
        self._needed = 0
        removal = Removal.read(store.path)
        self._removed_rows = removal.packed_rows if removal is not None and removal.rows == rows_name(config) else ()

    def rows(self, shard: int) -> ShardRows:
        """Return the rows of a shard."""
        self._need(shard + 1)
        if shard not in self._recent:
            rows = _read(self._path(shard), self._pieced) or self._make(shard)
            self._check(shard, rows)
            self._recent[shard] = rows
            self._recent_bytes += _size(rows)
            while self._recent_bytes > _CACHE_BYTES and len(self._recent) > 1:
                self._recent_bytes -= _size(self._recent.popitem(last=False)[1])
        self._recent.move_to_end(shard)
        return self._recent[shard]

    def windows(self) -> Windows:
        """Return the windows of the store, which wait for shards that are still in the making."""
        return Windows(self._store.num_planned_shards, self._config, self._count_rows)

    def _count_rows(self, first: int, stop: int) -> np.ndarray:
        """Return the rows of each bucket in the shards from `first` to `stop` at least; int64[buckets, S]."""
        self._need(stop)
        if len(self._store.shards) < stop:
            self._store.wait_for_shards(stop, is_cancelled=self._is_cancelled)
        shards = self._store.shards
        # Only the packed bucket, the last one, may need the shards themselves; without it all that are committed are
        # counted in one go.
        tells_all = len(count_by_table(shards.digits[:0], shards.multiples[:0], self._config)) == len(self._pieced)
        stop = len(shards) if tells_all else stop
        counts = count_by_table(shards.digits[first:stop], shards.multiples[first:stop], self._config)
        if tells_all:
            return counts
        packed = [number for shards in _stretches(first, stop) for number in self._count_packed(shards)]
        return np.vstack([counts, packed])

    def _count_packed(self, shards: range) -> list[int]:
        removed = self._removed_rows[shards.start : shards.stop]
        there = shards[len(removed) :]
        self._store.expect_documents([shard for shard in there if not self._path(shard).exists()])
        return [*removed, *(num_rows(self.rows(shard)[-1]) for shard in there)]

    def _need(self, num_shards: int) -> None:
        """Tell who prepares the store, where that has to know, that these shards and their last window are needed."""
        if self._tells_need and num_shards > self._needed:
            window = self._config.window_shards or num_shards
            self._needed = -(-num_shards // window) * window
            raise_demand(self._store.path, self._needed)

    def _path(self, shard: int) -> Path:
        return self._folder / index_name(self._store.shards, shard)

    def _make(self, shard: int) -> ShardRows:
        documents = np.asarray(self._store.documents(shard))
        rows = make_rows(documents, self._config, self._store.shards.digests[shard])
        with suppress(OSError):
            _write(self._path(shard), rows)
        return rows

    def _check(self, shard: int, rows: ShardRows) -> None:
        """Refuse a shard whose documents are not those that the table of shards counted."""
        shards = self._store.shards
        counted = count_by_table(shards.digits[shard, None], shards.multiples[shard, None], self._config)[:, 0].tolist()
        found = [num_rows(bucket) for bucket in rows[: len(counted)]]
        if counted != found:
            raise StoreError(
                f"documents of shard {shards.names[shard]} must give {counted} rows by length, got {found}; "
                "prepare the store again"
            )


def index_name(shards: ShardTable, shard: int) -> str:
    """Return the name of the file with a shard's rows, in the folder of their `rows_name`."""
    return f"{shards.names[shard]}-{shards.digests[shard][:16]}.index"


def rows_name(config: DataConfig) -> str:
    """Return a name for all that the rows of a shard depend on."""
    if config.sequences == "packed":
        return f"packed-{config.max_length}"
    order = "" if config.sequences == "decomposed" else f"-{config.seed}"
    return f"{config.sequences}-{config.lengths[0]}-{config.lengths[-1]}-{config.tails}{order}"


def _flatten(rows: ShardRows) -> list[np.ndarray]:
    return [array for bucket in rows for array in (bucket if isinstance(bucket, PiecedRows) else (bucket,))]


def _stretches(first: int, stop: int) -> Iterator[range]:
    return (range(start, min(start + _SHARDS_AHEAD, stop)) for start in range(first, stop, _SHARDS_AHEAD))


def _size(rows: ShardRows) -> int:
    return sum(array.nbytes for array in _flatten(rows))


def _write(path: Path, rows: ShardRows) -> None:
    """Write [checksum, sizes, arrays] as plain little-endian int64, beside and then renamed.

    Not synced to disk: what a power cut tears fails its checksum and is made again. Processes that make the same index
    write the same bytes, so they may share the file beside, and what a killed one leaves of it is the next one's.
    """
    arrays = _flatten(rows)
    body = np.concatenate([np.array([len(array) for array in arrays]), *arrays])
    content = np.concatenate([[zlib.crc32(body.data)], body]).astype("<i8").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(PARTIAL_SUFFIX)
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT, 0o644), "wb") as file:
            file.write(content)
            file.truncate()
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _read(path: Path, pieced: Sequence[bool]) -> ShardRows | None:
    """Return the rows that `_write` wrote, or None when there are none or they are damaged.

    pieced: of each bucket, whether its rows are `PiecedRows`.
    """
    try:
        content = np.fromfile(path, "<i8").astype(np.int64, copy=False)
    except OSError:
        return None
    num_arrays = sum(len(PiecedRows._fields) if pieces else 1 for pieces in pieced)
    if len(content) <= num_arrays or zlib.crc32(content[1:].data) != content[0]:
        return None
    body = content[1:]
    arrays = iter(np.split(body[num_arrays:], np.cumsum(body[: num_arrays - 1])))
    return tuple(PiecedRows(next(arrays), next(arrays), next(arrays)) if pieces else next(arrays) for pieces in pieced)
