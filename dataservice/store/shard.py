"""Writing one shard: its files grow under STORE/incoming, and one rename puts the whole folder in place."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataservice.store.files import digest_bytes, read_sealed_json, seal_file, sealed_json, sync_directory
from dataservice.store.manifest import TokenFormat
from dataservice.store.record import NUM_POWERS, ShardRecord, length_powers, significant

__all__ = [
    "DATA_FILES",
    "IDENTITY_NAME",
    "INCOMING",
    "RECORD_NAME",
    "SHARDS",
    "SOURCE_SCHEMA",
    "ShardWriter",
    "read_finished",
    "read_source",
    "shard_folder",
]

INCOMING = "incoming"
SHARDS = "shards"
RECORD_NAME = "shard.json"
IDENTITY_NAME = "source.json"
DATA_FILES = ("tokens.npy", "documents.npy", "sources.parquet")
SOURCE_SCHEMA = pa.schema([("repository", pa.string()), ("language", pa.string()), ("path", pa.string())])


def shard_folder(store: Path, name: str) -> Path:
    """Where a finished shard lies."""
    return store / SHARDS / name


def read_finished(store: Path, name: str, source: str) -> ShardRecord | None:
    """The record of a shard that was already made from this very input; None when it is to be made (again)."""
    folder = shard_folder(store, name)
    try:
        if read_source(store, name) != source:
            return None
        record = ShardRecord.from_json((folder / RECORD_NAME).read_bytes())
    except (OSError, ValueError, KeyError):
        return None
    sizes = {file: (folder / file).stat().st_size for file in DATA_FILES if (folder / file).exists()}
    return record if sizes == {file: seal.size for file, seal in record.files.items()} else None


def read_source(store: Path, name: str) -> str:
    """What identified the input of a finished shard when it was made."""
    return read_sealed_json(shard_folder(store, name) / IDENTITY_NAME)["source"]


class NpyWriter:
    """An .npy file of one dimension that grows: memory does not depend on its length."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._file = path.open("wb")
        self._dtype = dtype
        self._hash = hashlib.sha256()
        self.length = 0
        self._write_header()
        self._header_size = self._file.tell()

    def _write_header(self) -> None:
        # NumPy pads the header so that a first dimension of any size leaves its length alone.
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, values: np.ndarray) -> None:
        """Writes values at the end, in the file's dtype."""
        data = np.ascontiguousarray(values, self._dtype).data
        self._file.write(data)
        self._hash.update(data)
        self.length += len(values)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the values, without the header: how NumPy writes that may change."""
        return self._hash.digest()

    def close(self) -> None:
        """Writes the final length into the header."""
        with self._file:
            self._file.seek(0)
            self._write_header()
            assert self._file.tell() == self._header_size

    def abandon(self) -> None:
        """Closes the file as it is; on a full disk, writing what is left in its buffer fails as well."""
        with suppress(OSError):
            self._file.close()


class ShardWriter:
    """Context manager that writes shard `name`; leaving it without `finish` leaves nothing behind.

    The folder's content is a function of what was appended, in which pieces, and of nothing else.
    """

    def __init__(self, store: Path, name: str, tokens_of: TokenFormat) -> None:
        self._store = store
        self._name = name
        self._eod = tokens_of.eod
        self._dtype = tokens_of.dtype
        # A worker that outlives its killed parent for an instant must not share a folder with its successor.
        self._folder = store / INCOMING / f"{name}.{os.getpid()}"
        self._bytes = self._empty = 0
        self._powers = np.zeros((2, NUM_POWERS), np.int64)

    def __enter__(self) -> "ShardWriter":
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._tokens = NpyWriter(self._folder / "tokens.npy", self._dtype)
        self._documents = NpyWriter(self._folder / "documents.npy", np.dtype("<i8"))
        self._sources = pq.ParquetWriter(
            self._folder / "sources.parquet", SOURCE_SCHEMA, compression="zstd", write_page_checksum=True
        )
        return self

    def append(self, ids: np.ndarray, offsets: np.ndarray, sources: Sequence[Sequence[str]], num_bytes: int) -> None:
        """Adds documents.

        Args:
            ids: the documents' tokens, joined.
            offsets: int64[documents + 1]: document i is ids[offsets[i] : offsets[i + 1]]; empty ones are left out
                and counted.
            sources: three columns: repository, language, path of each document.
            num_bytes: length in UTF-8 of the documents' text.
        """
        kept = np.flatnonzero(np.diff(offsets))
        starts = offsets[kept]
        # An <eod> goes before each document, and those before it have moved its own.
        self._documents.append(self._tokens.length + starts - offsets[0] + np.arange(len(kept)))
        self._tokens.append(np.insert(ids[offsets[0] : offsets[-1]], starts - offsets[0], self._eod))
        self._powers += length_powers(np.diff(offsets)[kept] + 1)
        self._empty += len(offsets) - 1 - len(kept)
        self._bytes += num_bytes
        if len(kept):
            columns = [text_array(column).take(pa.array(kept)) for column in sources]
            self._sources.write_table(pa.table(columns, schema=SOURCE_SCHEMA))

    def finish(self, source: str, *, duplicates: int = 0, skipped: int = 0) -> ShardRecord:
        """Closes the shard with its last `<eod>` and renames it into place.

        `source` identifies the input it was made from (by place and time, so it is no part of the data's identity).
        """
        self._documents.append(np.array([self._tokens.length]))
        self._tokens.append(np.array([self._eod]))
        self._tokens.close()
        self._documents.close()
        self._sources.close()
        files = {name: seal_file(self._folder / name) for name in DATA_FILES}
        record = ShardRecord(
            name=self._name,
            tokens=self._tokens.length,
            documents=self._documents.length - 1,
            bytes=self._bytes,
            empty=self._empty,
            duplicates=duplicates,
            skipped=skipped,
            digits=significant(self._powers[0]),
            multiples=significant(self._powers[1]),
            content=digest_bytes(self._tokens.digest + self._documents.digest),
            files=files,
        )
        (self._folder / IDENTITY_NAME).write_bytes(sealed_json({"source": source}))
        (self._folder / RECORD_NAME).write_bytes(record.to_json())
        self._place()
        return record

    def _place(self) -> None:
        """Makes the folder durable and then visible, in one step."""
        for name in (IDENTITY_NAME, RECORD_NAME):
            seal_file(self._folder / name)
        sync_directory(self._folder)
        target = shard_folder(self._store, self._name)
        target.parent.mkdir(exist_ok=True)
        if target.exists():
            shutil.rmtree(target)
        self._folder.rename(target)
        sync_directory(target.parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder.exists():
            self._tokens.abandon()
            self._documents.abandon()
            with suppress(OSError):
                self._sources.close()
            shutil.rmtree(self._folder, ignore_errors=True)


def text_array(values: Sequence[str]) -> pa.Array:
    """Strings as Arrow has them; what is no Unicode (file names may be so) is spelt with backslashes."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([value.encode(errors="backslashreplace").decode() for value in values], pa.string())
