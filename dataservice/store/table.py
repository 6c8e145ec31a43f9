"""The table of shards: one row a shard, in store order, as arrays; and the digest chain over its rows."""

import builtins
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataservice.store.record import COUNTS, NUM_POWERS, ShardRecord

__all__ = ["ShardTable"]

ROWS_PER_BLOCK = 65_536
SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        *((name, pa.int64()) for name in COUNTS),
        ("digest", pa.string()),
        ("digits", pa.list_(pa.int64(), NUM_POWERS)),
        ("multiples", pa.list_(pa.int64(), NUM_POWERS)),
    ]
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardTable:
    """Rows of shards.parquet as arrays; S shards, in store order.

    `digits[s, k]` counts the documents of shard s whose length has binary digit k, and `multiples[s, k]` is the sum
    of length >> k over its documents: enough to know every bucket's rows without reading a shard.
    """

    names: tuple[str, ...]
    # counts: int64[S] each; `bytes` are those of the documents' text in UTF-8
    tokens: np.ndarray
    documents: np.ndarray
    bytes: np.ndarray
    empty: np.ndarray
    duplicates: np.ndarray
    skipped: np.ndarray
    # digests: of each shard's tokens and positions of documents, in hex
    digests: tuple[str, ...]
    # digits, multiples: int64[S, 48]
    digits: np.ndarray
    multiples: np.ndarray
    # root: what the chain starts from: what the tokens' meaning depends on
    root: builtins.bytes = b""

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def from_records(cls, records: Sequence[ShardRecord], *, root: builtins.bytes = b"") -> "ShardTable":
        """Stacks records into a table."""
        counts = {name: np.array([getattr(record, name) for record in records], np.int64) for name in COUNTS}
        return cls(
            names=tuple(record.name for record in records),
            digests=tuple(record.content for record in records),
            digits=stack_powers([record.digits for record in records]),
            multiples=stack_powers([record.multiples for record in records]),
            root=root,
            **counts,
        )

    def slice(self, start: int, stop: int) -> "ShardTable":
        """Rows `start` to `stop`."""
        columns = {name: getattr(self, name)[start:stop] for name in COLUMNS}
        return ShardTable(root=self.root, **columns)

    def extend(self, records: Sequence[ShardRecord]) -> "ShardTable":
        """This table's rows, then those of the records."""
        new = ShardTable.from_records(records)
        columns = {name: getattr(self, name) + getattr(new, name) for name in ("names", "digests")}
        columns |= {name: np.concatenate([getattr(self, name), getattr(new, name)]) for name in ARRAY_FIELDS}
        return ShardTable(root=self.root, **columns)

    @cached_property
    def chain(self) -> np.ndarray:
        """uint8[S + 1, 32]: entry n is the digest of the root and the data of the first n shards."""
        link = hashlib.sha256(self.root).digest()
        links = bytearray(link)
        for digest in self.digests:
            link = hashlib.sha256(link + bytes.fromhex(digest)).digest()
            links += link
        return np.frombuffer(bytes(links), np.uint8).reshape(-1, len(link))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each shard by its name."""
        return {name: number for number, name in enumerate(self.names)}

    def row_digest(self) -> str:
        """Digest (hex) of all that the rows hold, by which a manifest knows them."""
        state = hashlib.sha256("\0".join((*self.names, *self.digests)).encode())
        for name in ARRAY_FIELDS:
            state.update(np.ascontiguousarray(getattr(self, name), "<i8").data)
        return state.hexdigest()

    def prefix_digest(self, num_shards: int) -> str:
        """Digest (hex) of the data of the first `num_shards` shards: equal for all stores that begin with the same.

        A function of the tokenizer, the tokens and the positions of documents alone.
        """
        if not 0 <= num_shards <= len(self):
            raise ValueError(f"num_shards must be from 0 to {len(self)}, got {num_shards}")
        return self.chain[num_shards].tobytes().hex()

    def to_parquet(self) -> builtins.bytes:
        """The bytes of shards.parquet: a function of the rows (and of the version of pyarrow) alone."""
        columns = [
            pa.array(self.names, pa.string()),
            *(pa.array(getattr(self, name)) for name in COUNTS),
            pa.array(self.digests, pa.string()),
            *(
                pa.FixedSizeListArray.from_arrays(pa.array(getattr(self, name).reshape(-1)), NUM_POWERS)
                for name in ("digits", "multiples")
            ),
        ]
        sink = io.BytesIO()
        table = pa.table(columns, schema=SCHEMA)
        pq.write_table(table, sink, compression="zstd", row_group_size=ROWS_PER_BLOCK, write_page_checksum=True)
        return sink.getvalue()

    @classmethod
    def from_parquet(cls, data: builtins.bytes, num_rows: int, *, root: builtins.bytes = b"") -> "ShardTable":
        """The first `num_rows` rows of shards.parquet; ValueError (or pyarrow's errors) when they are not there."""
        columns: dict = {name: np.empty(num_rows, np.int64) for name in COUNTS}
        columns |= {name: np.empty((num_rows, NUM_POWERS), np.int64) for name in ("digits", "multiples")}
        names, digests = [], []
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        if not file.schema_arrow.equals(SCHEMA) or file.metadata.num_rows < num_rows:
            raise ValueError("other columns or fewer rows")
        # By pieces into place: a million shards take 0.8 GB, and must not take it twice.
        for batch in file.iter_batches(ROWS_PER_BLOCK):
            start, stop = len(names), min(len(names) + len(batch), num_rows)
            batch = batch.slice(0, stop - start)
            for name in ARRAY_FIELDS:
                columns[name][start:stop] = flat_numbers(batch[name]).reshape(stop - start, *columns[name].shape[1:])
            names += batch["name"].to_pylist()
            digests += batch["digest"].to_pylist()
        if len(names) != num_rows:
            raise ValueError("fewer rows than its footer says")
        return cls(names=tuple(names), digests=tuple(digests), root=root, **columns)


ARRAY_FIELDS = (*COUNTS, "digits", "multiples")
COLUMNS = ("names", "digests", *ARRAY_FIELDS)


def stack_powers(rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    """int64[rows, 48] from tuples without their final zeros."""
    stacked = np.zeros((len(rows), NUM_POWERS), np.int64)
    for index, row in enumerate(rows):
        stacked[index, : len(row)] = row
    return stacked


def flat_numbers(column: pa.Array) -> np.ndarray:
    """int64 of a column of numbers, or of lists of numbers one after the other."""
    return (column.flatten() if isinstance(column, pa.FixedSizeListArray) else column).to_numpy()
