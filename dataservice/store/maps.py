"""Memory maps of files, and a cache of them that holds a limited number of bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path

import numpy as np
import pyarrow as pa

__all__ = ["MapCache", "map_array"]


def map_array(path: Path) -> np.ndarray:
    """Read-only memory map of an .npy file.

    `np.load` would keep a file descriptor for each, of which a process has 1,024 or so; Arrow's mapping outlives the
    file it was made from.
    """
    with pa.memory_map(str(path)) as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        return np.frombuffer(file.read_buffer(), dtype).reshape(shape)


class MapCache:
    """Calls `open_map(*key)` once a key, and keeps the arrays that were used last, of `limit` bytes together.

    The last one is kept whatever its size. A map keeps the disk space of a file that was removed, so a mirror that
    removes files must drop their maps as well; `touch(*key)` tells it which are in use.
    """

    def __init__(self, open_map: Callable[..., np.ndarray], limit: int, touch: Callable[..., None]) -> None:
        self._open_map = open_map
        self._limit = limit
        self._touch = touch
        self._recent: OrderedDict[tuple[Hashable, ...], np.ndarray] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __contains__(self, key: tuple[Hashable, ...]) -> bool:
        return key in self._recent

    def __call__(self, *key: Hashable) -> np.ndarray:
        """Return the array of a key, made now or before."""
        with self._lock:
            array = self._recent.get(key)
            if array is not None:
                self._recent.move_to_end(key)
        if array is None:
            # Not under the lock: several threads may fetch several files.
            return self._keep(key, self._open_map(*key))
        self._touch(*key)
        return array

    def _keep(self, key: tuple[Hashable, ...], array: np.ndarray) -> np.ndarray:
        with self._lock:
            if key not in self._recent:
                self._recent[key] = array
                self._bytes += array.nbytes
            while self._bytes > self._limit and len(self._recent) > 1:
                self._bytes -= self._recent.popitem(last=False)[1].nbytes
            return array
