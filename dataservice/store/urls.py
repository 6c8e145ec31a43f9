"""Files of stores behind URLs: http(s) by the standard library, everything else by fsspec."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from typing import TypeVar

from dataservice.errors import StoreError
from dataservice.store.retrying import Patience, TransientError, persist

__all__ = ["UrlFiles"]

PIECE_BYTES = 1 << 20
STALL_SECONDS = 3600.0
# Request Timeout and Too Many Requests; other faults of the 400s are the client's.
PASSING_STATUSES = (408, 429)

Result = TypeVar("Result")


class UrlFiles:
    """The files of a store at a URL such as s3://bucket/store, https://host/store or memory://store."""

    poll_seconds = 1.0

    def __init__(self, url: str, patience: Patience | None = None) -> None:
        self.url = url.rstrip("/")
        self._patience = patience or Patience()
        self._is_http = url.startswith(("http://", "https://"))
        self._last_news = (b"", time.monotonic())

    def fetch(self, name: str, take: Callable[[Iterable[bytes]], Result]) -> Result:
        """What `take` makes of a file's bytes, tried again after faults that may pass."""
        url = f"{self.url}/{name}"
        read = self._read_http if self._is_http else self._read_other

        def attempt() -> Result:
            try:
                with closing(read(url)) as pieces:
                    return take(pieces)
            except FileNotFoundError as error:
                raise StoreError(
                    f"{url} must be there, got no such file; data.store must name a store that "
                    "python -m dataservice prepare has made"
                ) from error

        return persist(url, attempt, self._patience, lambda fault: self._give_up(url, fault))

    def has_writer(self) -> bool:
        """Whether shards may still come: nothing tells, so until nothing has come for an hour."""
        news = self.fetch("manifest.json", b"".join)
        if news != self._last_news[0]:
            self._last_news = (news, time.monotonic())
        return time.monotonic() - self._last_news[1] < STALL_SECONDS

    def _read_http(self, url: str) -> Generator[bytes, None, None]:
        try:
            with urllib.request.urlopen(url, timeout=self._patience.timeout) as response:
                while piece := response.read(PIECE_BYTES):
                    yield piece
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise FileNotFoundError(url) from error
            if error.code < 500 and error.code not in PASSING_STATUSES:
                raise StoreError(f"{url} must be readable, got {error}; mend its permissions") from error
            raise TransientError(str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise TransientError(_one_line(error)) from error

    def _read_other(self, url: str) -> Generator[bytes, None, None]:
        import fsspec

        try:
            file_system, path = fsspec.url_to_fs(url)
            with file_system.open(path, "rb") as file:
                while piece := file.read(PIECE_BYTES):
                    yield piece
        except FileNotFoundError:
            raise
        except (ImportError, ValueError, PermissionError) as error:
            raise StoreError(
                f"{url} must be readable, got {_one_line(error)}; install what fsspec needs for it, or mend the URL"
            ) from error
        # Each file system of fsspec has errors of its own for a cut connection.
        except Exception as error:
            raise TransientError(_one_line(error)) from error

    def _give_up(self, url: str, fault: TransientError) -> StoreError:
        return StoreError(
            f"{url} must be readable, got in {self._patience.tries} tries at last: {fault}; "
            "mend the connection or the file and run again"
        )


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__} {error}".split())
