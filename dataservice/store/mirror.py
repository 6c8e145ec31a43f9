"""A folder that mirrors a remote store: whole files, checked against their digests, under a limit of bytes."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import pyarrow as pa

from dataservice.errors import StoreError
from dataservice.store.files import (
    PARTIAL_SUFFIX,
    FileSeal,
    check_sealed,
    digest_bytes,
    parse_sealed_json,
    replace_file,
)
from dataservice.store.manifest import MANIFEST_NAME
from dataservice.store.retrying import TransientError
from dataservice.store.shard import SHARDS
from dataservice.store.table import ShardTable

__all__ = ["MIRRORS", "Mirror", "RemoteFiles"]

MIRRORS = "mirrors"
TABLE_NAME = "shards.parquet"
LOCK_NAME = "mirror.lock"

Result = TypeVar("Result")


class RemoteFiles(Protocol):
    """The files of a store that lies elsewhere.

    Attributes:
        url: where, for people.
        poll_seconds: how often to look for new shards.
    """

    url: str
    poll_seconds: float

    def fetch(self, name: str, take: Callable[[Iterable[bytes]], Result]) -> Result:
        """What `take` makes of the bytes of a file, which come in pieces.

        Called again, from the start, after a fault that may pass, also one that `take` raises as TransientError.
        Raises StoreError in the end, or when there is no such file.
        """
        ...

    def has_writer(self) -> bool:
        """Whether somebody may still add shards."""
        ...


class Mirror:
    """The origin of a `Store` whose folder is a mirror; several processes may share one.

    The folder has the layout of a store, so what is in it is read as one. manifest.json and shards.parquet never go
    back to fewer shards. Files of shards arrive when they are asked for; where those of all mirrors under `root` would
    take more than `limit` bytes, the ones that were used least recently are removed first.

    Attributes:
        remote: the files that are mirrored.
        prefix: of their names there; empty but for a store within another.
    """

    def __init__(self, remote: RemoteFiles, folder: Path, *, root: Path, limit: int, prefix: str = "") -> None:
        self.place = f"{remote.url}/{prefix}".rstrip("/")
        self.limit = limit
        self.poll_seconds = remote.poll_seconds
        self.remote = remote
        self._folder = folder
        self._root = root
        self.prefix = prefix
        self._is_checked = False

    def within(self, name: str) -> "Mirror":
        """The mirror of a store in a folder of this one."""
        prefix = f"{self.prefix}{name}/"
        return Mirror(self.remote, self._folder / name, root=self._root, limit=self.limit, prefix=prefix)

    def has_writer(self) -> bool:
        """Whether somebody may still add shards."""
        return self.remote.has_writer()

    def update(self) -> None:
        """Brings the manifest and the table up to date, the table first."""
        with self._writable(self._folder / LOCK_NAME), self._locked(self._folder):
            data = self._fetch(MANIFEST_NAME, _parsed(parse_sealed_json))
            fields = parse_sealed_json(data)
            if self._is_checked and data == self._read(MANIFEST_NAME):
                return
            if not self._is_ahead(fields):
                if not self._holds(TABLE_NAME, FileSeal(*fields["table"])):
                    replace_file(self._folder / TABLE_NAME, self._fetch_table(fields))
                replace_file(self._folder / MANIFEST_NAME, data)
            self._is_checked = True

    def _is_ahead(self, fields: dict[str, Any]) -> bool:
        """Whether the mirror holds what a manifest counts and more, as when the server that answers is behind."""
        try:
            mine = parse_sealed_json(self._read(MANIFEST_NAME))
            table = ShardTable.from_parquet(self._read(TABLE_NAME), mine["shards"])
        except (ValueError, KeyError, OSError, pa.ArrowException):
            return False
        if mine["shards"] <= fields["shards"] or mine["fingerprint"] != fields["fingerprint"]:
            return False
        return table.slice(0, fields["shards"]).row_digest() == fields["rows"]

    def _fetch_table(self, fields: dict[str, Any]) -> bytes:
        """The bytes of a table that begins with the rows that the manifest counts; it may have newer ones."""

        def parse(data: bytes) -> None:
            if digest_bytes(data) == FileSeal(*fields["table"]).digest:
                return
            try:
                rows = ShardTable.from_parquet(data, fields["shards"]).row_digest()
            except (OSError, pa.ArrowException) as error:
                raise ValueError("a table of shards") from error
            if rows != fields["rows"]:
                raise ValueError(f"the rows with digest {fields['rows'][:12]}")

        return self._fetch(TABLE_NAME, _parsed(parse))

    def load(self, name: str, parse: Callable[[bytes], Result]) -> Result:
        """What `parse` makes of a small file, fetched unless the mirror holds it undamaged."""
        path = self._folder / name
        with self._writable(path):
            with suppress(FileNotFoundError, ValueError):
                return parse(path.read_bytes())
            data = self._fetch(name, _parsed(parse))
            with _arriving(path) as file:
                file.write(data)
            return parse(data)

    def obtain(self, name: str, seal: FileSeal) -> Path:
        """Path of a file with the sealed bytes, fetched unless the mirror holds them."""
        path = self._folder / name
        with self._writable(path):
            if self._holds(name, seal):
                self.touch(name)
                return path
            with _arriving(path) as file:
                # Another process or thread may have fetched it while this one waited.
                if not self._holds(name, seal):
                    self._make_room(file, seal.size)
                    self._fetch(name, lambda pieces: _write_sealed(file, pieces, seal))
            return path

    def touch(self, name: str) -> None:
        """Notes that a file is in use, so that others are removed before it."""
        with suppress(FileNotFoundError):
            os.utime(self._folder / name)

    def _fetch(self, name: str, take: Callable[[Iterable[bytes]], Result]) -> Result:
        def take_named(pieces: Iterable[bytes]) -> Result:
            try:
                return take(pieces)
            except TransientError as error:
                raise TransientError(f"{self.prefix}{name}: {error}") from error

        return self.remote.fetch(self.prefix + name, take_named)

    def _read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def _holds(self, name: str, seal: FileSeal) -> bool:
        try:
            check_sealed(self._folder / name, seal)
        except StoreError:
            return False
        return True

    def _make_room(self, file: IO[bytes], size: int) -> None:
        """Gives a file its final size, once the files used least recently have made room for it."""
        with self._locked(self._root):
            os.truncate(file.fileno(), 0)
            held = sorted(_list_held(self._root))
            excess = sum(held_size for _, held_size, _ in held) + size - self.limit
            for _, held_size, path in held:
                if excess <= 0:
                    break
                excess -= held_size if _remove(Path(path)) else 0
            # Counted from now on, though it has not arrived.
            os.truncate(file.fileno(), size)

    @contextmanager
    def _writable(self, path: Path) -> Iterator[None]:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise StoreError(
                f"data.cache must have room for what is read of {self.remote.url}, got {error.strerror or error} at "
                f"{path}; mend that, lower data.cache_bytes or set another data.cache"
            ) from error

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        with (folder / LOCK_NAME).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _list_held(root: Path) -> Iterator[tuple[float, int, str]]:
    """Yield (time of last use, size, path) of the files of shards in all mirrors."""
    for path in root.glob(f"**/{SHARDS}/*/*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            yield status.st_mtime, status.st_size, str(path)


def _remove(path: Path) -> bool:
    """Remove a file unless it is just arriving; one that was, when its process was killed, is not."""
    with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
        if path.suffix == PARTIAL_SUFFIX:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return True
    return False


@contextmanager
def _arriving(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` that is renamed to it, when something was written; others who want the same wait."""
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    while True:
        with os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Whoever held the lock before has renamed the file, or removed it.
            if not _is_same(file, partial):
                continue
            try:
                yield file
                file.flush()
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
            if file.tell():
                file.truncate()
                partial.replace(path)
            else:
                partial.unlink()
            return


def _is_same(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _write_sealed(file: IO[bytes], pieces: Iterable[bytes], seal: FileSeal) -> None:
    file.seek(0)
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        size += len(piece)
        if size > seal.size:
            break
        file.write(piece)
        digest.update(piece)
    if (size, digest.hexdigest()) != seal:
        raise TransientError(f"got {size} bytes or more that are not the {seal.size} with digest {seal.digest[:12]}")


def _parsed(parse: Callable[[bytes], object]) -> Callable[[Iterable[bytes]], bytes]:
    """What joins pieces into the bytes of a file that `parse` accepts."""

    def take(pieces: Iterable[bytes]) -> bytes:
        data = b"".join(pieces)
        try:
            parse(data)
        except ValueError as error:
            raise TransientError(f"got damaged bytes, not {error}") from error
        return data

    return take
