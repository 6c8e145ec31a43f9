"""What a server has done: counts since it started, and a line about the time since the last one."""

import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Counts", "ServerMetrics"]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts since the start: requests, those refused or failed, tokens sent, and bytes sent of tokens and files."""

    requests: int = 0
    errors: int = 0
    tokens: int = 0
    bytes: int = 0


class ServerMetrics:
    """Counts of a server; any thread may add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start = self._last_time = time.monotonic()
        self._counts = self._last = Counts()

    def add(self, **amounts: int) -> None:
        """Adds to counts, by name."""
        with self._lock:
            self._counts = Counts(**{name: n + amounts.get(name, 0) for name, n in asdict(self._counts).items()})

    def report(self) -> dict[str, Any]:
        """The counts, and the seconds and mean tokens per second since the start."""
        seconds = time.monotonic() - self._start
        counts = self._counts
        return {**asdict(counts), "seconds": round(seconds, 3), "tokens_per_second": round(counts.tokens / seconds)}

    def take_line(self) -> str | None:
        """A line about what was done since the last one; None when that is nothing."""
        with self._lock:
            now, counts, last = time.monotonic(), self._counts, self._last
            if counts == last:
                return None
            seconds, self._last_time, self._last = now - self._last_time, now, counts
        return (
            f"{counts.requests - last.requests:,} requests, {counts.errors - last.errors:,} errors, "
            f"{(counts.tokens - last.tokens) / seconds:,.0f} tokens/s, "
            f"{(counts.bytes - last.bytes) / seconds / 1e6:,.1f} MB/s"
        )
