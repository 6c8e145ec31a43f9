"""How far the readers of a store in the making have come (STORE/demand), so that its writer is not too far ahead."""

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["Demand", "has_demand", "raise_demand"]

DEMAND_NAME = "demand"


def has_demand(store: Path) -> bool:
    """Whether a writer of the store asks how far its readers have come."""
    return (store / DEMAND_NAME).exists()


def raise_demand(store: Path, count: int) -> None:
    """Tell the writer, if it is one that asks, that the first `count` shards are needed.

    Lines are only ever appended, each in one write, so readers in any number of processes lose none of them.
    """
    with suppress(OSError):
        descriptor = os.open(store / DEMAND_NAME, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, b"%d\n" % count)
        finally:
            os.close(descriptor)


class Demand:
    """The writer's side: what is wanted are `ahead_windows` windows after the furthest that any reader needs."""

    def __init__(self, store: Path, window_shards: int, ahead_windows: int) -> None:
        self._path = store / DEMAND_NAME
        self._window_shards = window_shards
        self._ahead_shards = window_shards * ahead_windows
        self._needed = window_shards
        self._num_read = 0
        store.mkdir(parents=True, exist_ok=True)
        self._path.touch()

    def wants(self, shard: int) -> bool:
        """Whether a shard, by its place in the store, is to be made by now."""
        if shard >= self._needed + self._ahead_shards:
            self._read()
        return shard < self._needed + self._ahead_shards

    def _read(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._num_read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._num_read += len(whole) + len(newline)
        self._needed = max([self._needed, *map(int, whole.split())])

    def close(self) -> None:
        """Ends asking."""
        self._path.unlink(missing_ok=True)
