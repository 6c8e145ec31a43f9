"""One writer at a time: an advisory lock of the operating system, which dies with the process that holds it."""

import fcntl
import time
from pathlib import Path
from types import TracebackType
from typing import IO

from dataservice.errors import StoreError

__all__ = ["WriterLock", "has_writer"]

LOCK_NAME = "lock"
# `has_writer` holds a shared lock for an instant, so one refusal does not yet mean another writer.
PATIENCE_SECONDS = 1.0
POLL_SECONDS = 0.02


class WriterLock:
    """Context manager that holds STORE/lock.

    Args:
        store: the store's folder; made when missing.
        wait: wait for another writer to end (or die) instead of refusing.

    Raises StoreError when another process writes the store and `wait` is false.
    """

    def __init__(self, store: Path, *, wait: bool = False) -> None:
        self._store = store
        self._wait = wait
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "WriterLock":
        self._store.mkdir(parents=True, exist_ok=True)
        file = (self._store / LOCK_NAME).open("ab")
        try:
            self._acquire(file)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    def _acquire(self, file: IO[bytes]) -> None:
        if self._wait:
            fcntl.flock(file, fcntl.LOCK_EX)
            return
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not try_lock(file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise StoreError(
                    f"store {self._store} must have one writer at a time, got a second one; wait until the first ends"
                )
            time.sleep(POLL_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def try_lock(file: IO[bytes], mode: int) -> bool:
    """Takes the lock if that needs no waiting."""
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def has_writer(store: Path) -> bool:
    """Whether a living process holds the store's lock."""
    try:
        file = (store / LOCK_NAME).open("rb")
    except FileNotFoundError:
        return False
    with file:
        return not try_lock(file, fcntl.LOCK_SH)
