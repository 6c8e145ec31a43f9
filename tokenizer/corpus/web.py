"""Ranges of files behind http(s), by the standard library: the file system of fsspec for these needs aiohttp."""

import urllib.error
import urllib.request
from typing import Any

__all__ = ["WebFiles"]

TIMEOUT_SECONDS = 60.0


class WebFiles:
    """The part of a file system of fsspec that reading named files takes; paths are URLs.

    Raises FileNotFoundError for a file that is not there, and the errors of urllib and http.client for everything else.
    """

    def invalidate_cache(self) -> None:
        """Nothing is kept."""

    def info(self, url: str) -> dict[str, Any]:
        """Size in bytes and ETag (or date of the last change), as the headers of an answer give them."""
        # A range of one byte also works on servers that sign URLs for GET alone, and tells the whole size.
        with self._open(url, "bytes=0-0") as response:
            headers = response.headers
            total = headers.get("Content-Range", "").rpartition("/")[2] if response.status == 206 else None
        size = total or headers.get("Content-Length")
        return {
            "type": "file",
            "size": int(size) if size and size.isdigit() else None,
            "ETag": headers.get("ETag") or headers.get("Last-Modified"),
        }

    def cat_file(self, url: str, *, start: int, end: int) -> bytes:
        """Bytes `start` to `end` of a file; all of it from a server that knows no ranges."""
        with self._open(url, f"bytes={start}-{end - 1}") as response:
            return response.read()

    def _open(self, url: str, byte_range: str) -> Any:
        request = urllib.request.Request(url, headers={"Range": byte_range, "Accept-Encoding": "identity"})
        try:
            return urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and byte_range == "bytes=0-0":
                return EmptyAnswer(error)
            if error.code in (404, 410):
                raise FileNotFoundError(f"status {error.code}") from error
            raise


class EmptyAnswer:
    """What a server says of an empty file when asked for its first byte: that no such range exists."""

    status = 200

    def __init__(self, error: urllib.error.HTTPError) -> None:
        self.headers = {**dict(error.headers), "Content-Length": "0"}

    def __enter__(self) -> "EmptyAnswer":
        return self

    def __exit__(self, *_: object) -> None:
        pass
