"""Folders that are replaced in one step: whoever reads finds the old one or the new one, whole."""

import ctypes
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tokenizer.output import name_beside, refused, resolve, sync_folder

__all__ = ["new_folder", "read_folder"]

AT_FDCWD = -100
RENAME_EXCHANGE = 2
MOVED_AWAY = ".old"


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder beside ``path`` that takes its place at the end; on any error, nothing has happened.

    Of several writers of one place, the last to end stays. What a killed process has left beside ``path`` is removed
    at the end. The folder of one that lives is locked.
    """
    place = resolve(path)
    folder = name_beside(place)
    try:
        with refused(path):
            folder.mkdir(parents=True)
            with _locked(folder):
                yield folder
                sync_folder(folder)
                _replace(folder, place)
            sync_folder(place.parent)
            _remove_abandoned(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_folder(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Read files of a folder, all of the same state of it, even while others replace it.

    Raises OSError, which names the file, for one that cannot be read.
    """
    while True:
        try:
            folder = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            if _put_back(resolve(path)):
                continue
            raise
        try:
            return {name: _read(name, folder) for name in names}
        except FileNotFoundError as missing:
            if _is_at(path, folder):
                missing.filename = str(path / str(missing.filename))
                raise
            # It was replaced, and its files removed, since it was opened: read what is there now.
        finally:
            os.close(folder)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether an open folder is what a path names."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _read(name: str, folder: int) -> bytes:
    with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=folder), "rb") as file:
        return file.read()


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[int]:
    """Hold a lock that ends with the process; raises BlockingIOError when it is held and we shall not wait."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield descriptor
    finally:
        os.close(descriptor)


def _replace(folder: Path, place: Path) -> None:
    while True:
        try:
            folder.rename(place)  # where nothing is, or an empty folder
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        with suppress(FileNotFoundError):  # another process has just moved away what was there
            if _exchange(folder, place) or _replace_in_two_steps(folder, place):
                return


def _exchange(first: Path, second: Path) -> bool:
    """Let two folders change places in one step (renameat2 of Linux); False where that is not known."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    names = os.fsencode(first), os.fsencode(second)
    if libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):  # NFS, for one
        return False
    raise OSError(code, os.strerror(code), str(second))


def _replace_in_two_steps(folder: Path, place: Path) -> bool:
    """Move away what is there, locked until all is done, then move in; False when another process was faster."""
    old = folder.with_name(folder.name + MOVED_AWAY)
    with _locked(place) as descriptor:
        if not _is_at(place, descriptor):
            return False
        try:
            place.rename(old)
            folder.rename(place)
        except BaseException as error:
            with suppress(OSError):
                old.rename(place)
            if not (isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST)):
                raise
            return False
        finally:
            if place.exists():
                shutil.rmtree(old, ignore_errors=True)
    return True


def _put_back(place: Path) -> bool:
    """Put back what a process killed between its two steps has moved away, after waiting for one that lives.

    Returns whether there is something at the place now.
    """
    if not place.exists() and place.parent.is_dir():
        for old in _beside(place):
            if old.suffix == MOVED_AWAY:
                with suppress(OSError), _locked(old):
                    if not place.exists():
                        old.rename(place)
    return place.exists()


def _remove_abandoned(place: Path) -> None:
    for folder in _beside(place):
        with suppress(OSError), _locked(folder, wait=False):  # in use, or gone
            if any(folder.iterdir()):  # an empty one may have been made just now, and not be locked yet
                shutil.rmtree(folder, ignore_errors=True)


def _beside(place: Path) -> list[Path]:
    """The folders that are beside a place for its sake."""
    start = re.escape(name_beside(place).name[:-32])
    name = re.compile(rf"{start}[0-9a-f]{{32}}({re.escape(MOVED_AWAY)})?")
    return [folder for folder in place.parent.iterdir() if name.fullmatch(folder.name) and folder.is_dir()]
