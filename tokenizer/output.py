"""Files and folders that appear whole or not at all."""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tokenizer.errors import TokenizerError

__all__ = ["check_writable", "new_folder", "write_file", "write_synced"]


def check_writable(path: Path) -> None:
    """Raise TokenizerError unless a file or folder can be made at ``path``; tries it, and leaves nothing."""
    place = next(parent for parent in path.absolute().parents if parent.exists())
    with _refused(path), tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=place):
        pass


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder beside ``path`` that takes its place at the end; on any error, nothing has happened.

    What a killed process has left beside ``path`` is removed at the end. The folder of one that lives is locked.
    """
    folder = path.parent / f".{path.name}.{uuid4().hex}"
    try:
        with _refused(path):
            folder.mkdir(parents=True)
            with _locked(folder):
                yield folder
                _sync(folder)
                _replace(folder, path)
            _sync(path.parent)
            _remove_abandoned(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: beside its place, then renamed."""
    beside = path.parent / f".{path.name}.{uuid4().hex}"
    try:
        with _refused(path):
            write_synced(beside, data)
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TokenizerError(f"output must be writable, got {error.strerror}: {path}; choose another place") from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock that ends with the process; raises BlockingIOError when another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _replace(folder: Path, path: Path) -> None:
    if not path.exists() or not any(path.iterdir()):
        folder.rename(path)
        return
    old = path.parent / f"{folder.name}.old"
    path.rename(old)
    folder.rename(path)
    shutil.rmtree(old)


def _remove_abandoned(path: Path) -> None:
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{32}}(\.old)?")
    for folder in path.parent.iterdir():
        if name.fullmatch(folder.name) and folder.is_dir():
            try:
                with _locked(folder):
                    shutil.rmtree(folder, ignore_errors=True)
            except OSError:
                continue  # in use, or gone


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
