"""Files that appear whole or not at all, and places where something can be written."""

import errno
import glob
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from uuid import uuid4

from tokenizer.errors import TokenizerError
from tokenizer.ownership import find_owner, kind_of

__all__ = [
    "check_file",
    "check_output_file",
    "check_owner",
    "check_writable",
    "name_beside",
    "refused",
    "resolve",
    "sync_folder",
    "write_file",
    "write_synced",
]

SHOWN_OF_NAME = 50
"""Characters of a name that names beside it begin with: even of 4 bytes each, such a name is no longer than 255."""


def check_writable(path: Path, name: str = "output") -> None:
    """Raise TokenizerError unless a file or folder can be made at ``path``; tries it, and leaves nothing."""
    with refused(path, name):
        place = resolve(path)
        _mode(place)
        parent = next(parent for parent in place.parents if parent.exists())
        with tempfile.TemporaryDirectory(prefix=".", dir=parent):
            pass


def check_file(path: Path, name: str = "output") -> None:
    """Raise TokenizerError unless ``write_file`` can write at ``path``; changes nothing."""
    with refused(path, name):
        mode = _mode(path)
        if _is_stream(mode):
            return
        if mode is None and not resolve(path).parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such folder")
    check_writable(path, name)


def check_output_file(path: Path, inputs: Iterable[str | Path] = (), *, name: str = "output") -> None:
    """Raise TokenizerError unless a command may write a file at ``path``.

    Args:
        path: The file; what a command has written before is written again.
        inputs: What the command reads: files, folders and globs of documents, and folders of what we make.
        name: That of the setting.
    """
    check_file(path, name)
    check_owner(path, name)
    if (found := _find_read(path, inputs)) is not None:
        raise TokenizerError(f"{name} must not {found}, got {path}; choose another place")


def check_owner(path: Path, name: str = "output") -> None:
    """Raise TokenizerError where a place is part of a run, a store, a tokenizer or a model's folder."""
    if (owner := find_owner(path)) is not None:
        raise TokenizerError(
            f"{name} must not be part of {owner.kind}, got {path} of {owner.folder}; choose another place"
        )


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: beside its place, then renamed.

    A link stays and its target is written; a device or a pipe is written to, as nothing can be put in its place.
    """
    with refused(path):
        if _is_stream(_mode(path)):
            with path.open("wb") as stream:
                stream.write(data)
            return
        place = resolve(path)
        beside = name_beside(place)
        try:
            write_synced(beside, data)
            beside.replace(place)
        finally:
            with suppress(OSError):
                beside.unlink()


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def resolve(path: Path) -> Path:
    """The place that a path names when its links are followed; that of a loop of links is in the loop."""
    return Path(os.path.realpath(path))


def name_beside(place: Path) -> Path:
    """A hidden name of its own beside a place, which tells what it is for and is never too long."""
    return place.with_name(f".{place.name[:SHOWN_OF_NAME]}.{uuid4().hex}")


@contextmanager
def refused(path: Path, name: str = "output") -> Iterator[None]:
    """Turn what the system says of an output into TokenizerError; `name` is that of the setting."""
    try:
        yield
    except OSError as error:
        raise TokenizerError(f"{name} must be writable, got {error.strerror}: {path}; choose another place") from None


def _find_read(path: Path, inputs: Iterable[str | Path]) -> str | None:
    """What a place must not be or do, because of what is read there; None for a place where nothing is."""
    from tokenizer.corpus.remote import is_url, local_path

    place = resolve(path)
    if not (place.is_file() or not place.exists()):  # a device is no document
        return None
    for source in map(str, inputs):
        text = os.path.expanduser(local_path(source) or source)  # noqa: PTH111
        if is_url(text):
            continue
        is_there = os.path.exists(text)  # noqa: PTH110
        for match in map(Path, [text] if is_there else glob.glob(text, recursive=True)):  # noqa: PTH207
            if match.is_dir() and resolve(match) in place.parents and kind_of(match) is None:
                return "lie in a folder that is read"
            if match.is_file() and place.is_file() and place.samefile(match):
                return "be what is read"
        if not is_there and _matches(place, os.path.realpath(text)):
            return "be named like what is read"
    return None


def _matches(place: Path, pattern: str) -> bool:
    """Whether a glob would find a place."""
    if "**" in pattern:
        return fnmatchcase(str(place), pattern.replace("**/", "*"))
    return glob.has_magic(pattern) and place.match(pattern)


def _mode(path: Path) -> int | None:
    """Kind and permissions of what is there, links followed; None for nothing."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _is_stream(mode: int | None) -> bool:
    """Whether to write into what is there; raises OSError for what is neither that nor a file to replace."""
    if mode is None or stat.S_ISREG(mode):
        return False
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return True
    code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(code, "Is a directory" if stat.S_ISDIR(mode) else "neither a file nor a device nor a pipe")
