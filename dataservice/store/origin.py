"""Where a store's files come from: its own folder, or a remote place of which the folder is a mirror."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from dataservice.store.files import FileSeal, check_sealed, damaged, missing
from dataservice.store.lock import has_writer

__all__ = ["LocalOrigin", "Origin"]

Parsed = TypeVar("Parsed")


class Origin(Protocol):
    """What a `Store` asks about the files of its folder; names are relative to the folder, with slashes."""

    @property
    def place(self) -> str:
        """Where the store lies, for people."""
        ...

    @property
    def poll_seconds(self) -> float:
        """How long who waits for shards waits before looking again."""
        ...

    @property
    def limit(self) -> int | None:
        """Most bytes of maps to keep open; None where the files are there anyway."""
        ...

    def update(self) -> None:
        """Brings manifest.json and shards.parquet in the folder up to date."""
        ...

    def obtain(self, name: str, seal: FileSeal) -> Path:
        """Path of a file whose bytes are those that were sealed; StoreError when there is none."""
        ...

    def load(self, name: str, parse: Callable[[bytes], Parsed]) -> Parsed:
        """What `parse` makes of a file's bytes; it raises ValueError(what they must be) when they are damaged."""
        ...

    def touch(self, name: str) -> None:
        """Notes that a file is in use."""
        ...

    def has_writer(self) -> bool:
        """Whether somebody may still add shards."""
        ...

    def within(self, name: str) -> "Origin":
        """The origin of the store in a folder of this one."""
        ...


class LocalOrigin:
    """A store that lies in its folder."""

    poll_seconds = 0.05
    limit = None

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._folder = folder

    def update(self) -> None:
        """Nothing: the writer does."""

    def obtain(self, name: str, seal: FileSeal) -> Path:
        """The file, checked."""
        path = self._folder / name
        check_sealed(path, seal)
        return path

    def load(self, name: str, parse: Callable[[bytes], Parsed]) -> Parsed:
        """The file, parsed."""
        path = self._folder / name
        try:
            return parse(path.read_bytes())
        except FileNotFoundError as error:
            raise missing(path) from error
        except ValueError as error:
            raise damaged(path, str(error)) from error

    def touch(self, name: str) -> None:
        """Nothing."""

    def has_writer(self) -> bool:
        """Whether a living process holds the store's lock."""
        return has_writer(self._folder)

    def within(self, name: str) -> "LocalOrigin":
        """A folder of the folder."""
        return LocalOrigin(self._folder / name)
