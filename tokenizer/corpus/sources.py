"""Opening the files of a corpus, local or remote, and refusing those that changed since they were listed."""

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tokenizer.corpus.documents import SourceFile
from tokenizer.corpus.folders import source_file
from tokenizer.corpus.remote import filesystem_of, is_url, refuse_change
from tokenizer.corpus.retrying import with_retries
from tokenizer.corpus.web import WebFiles
from tokenizer.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]

__all__ = ["has_ranges", "local_copy", "open_bytes", "open_source", "refuse_changed", "whole_source"]

# One request asks for no more: what is lost with a dropped connection is bounded.
REQUEST_BYTES = 16 << 20


def open_source(file: SourceFile, buffer_bytes: int) -> "str | BinaryIO":
    """What Arrow opens: the path of a local file, or a remote file that is read in ranges of `buffer_bytes` or more."""
    return io.BufferedReader(RemoteFile(file), buffer_bytes) if is_url(file.location) else file.location


def open_bytes(file: SourceFile, buffer_bytes: int) -> BinaryIO:
    """A local or remote file as a stream of bytes."""
    opened = open_source(file, buffer_bytes)
    return open(opened, "rb", buffer_bytes) if isinstance(opened, str) else opened  # noqa: PTH123 (by the line)


def has_ranges(location: str) -> bool:
    """Whether a part of a file can be read without what is before it, as its location tells.

    Not in an archive; and a server of http(s) may send the whole file for every range.
    """
    return not is_url(location) or ("::" not in location and not location.startswith(("http://", "https://")))


@contextmanager
def local_copy(file: SourceFile) -> Iterator[str]:
    """Path of a file on a local disk: its own, or that of a copy in the system's temporary folder."""
    if not is_url(file.location):
        yield file.location
        return
    with tempfile.NamedTemporaryFile(prefix="dyadlm-") as copy:
        free = shutil.disk_usage(Path(copy.name).parent).free
        if free < file.size:
            raise SourceError(
                f"temporary folder must have room for {file.size} bytes of {file.location}, got {free} free in "
                f"{Path(copy.name).parent}; set the environment variable TMPDIR to another"
            )
        with open_bytes(file, REQUEST_BYTES) as stream:
            shutil.copyfileobj(stream, copy, REQUEST_BYTES)
        copy.flush()
        yield copy.name


def whole_source(file: SourceFile) -> bytes:
    """All bytes of a file; OSError or SourceError when they cannot be had."""
    if is_url(file.location):
        with io.BufferedReader(RemoteFile(file), 1 << 16) as stream:
            return stream.read()
    with open(file.location, "rb") as stream:  # noqa: PTH123 (15k files of the installed packages)
        return stream.read()


def refuse_changed(file: SourceFile) -> None:
    """Raise SourceError when a file is not what it was when the corpus was listed: asked after it was read."""
    if is_url(file.location):
        return refuse_change(file)
    now = source_file(file.location, file.repository, file.path)
    if now is None or (now.size, now.modified) != (file.size, file.modified):
        state = "nothing there" if now is None else f"other content ({now.size} bytes after {file.size})"
        raise SourceError(
            f"source must stay as it is while it is read, got {state}: {file.location}; run again on what is there now"
        )


class RemoteFile(io.RawIOBase):
    """Reads ranges of a remote file, each of them whole or not at all."""

    def __init__(self, file: SourceFile) -> None:
        from fsspec.asyn import AsyncFileSystem

        self._file = file
        self._filesystem: Any
        self._filesystem, self._path = filesystem_of(file.location)
        # Others (archives, above all) would start from the beginning of the file for every range.
        self._has_ranges = isinstance(self._filesystem, AsyncFileSystem | WebFiles)
        self._handle: Any = None
        self._whole: bytes | None = None
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position of the next read; costs nothing."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        self._position = start + offset
        return self._position

    def readinto(self, buffer: "Buffer") -> int:
        """Read up to REQUEST_BYTES at the position, asking again as often as `with_retries` does."""
        view = memoryview(buffer).cast("B")
        end = min(self._position + min(len(view), REQUEST_BYTES), self._file.size)
        if end <= self._position:
            return 0
        data = with_retries(lambda: self._fetch(self._position, end), self._file.location)
        view[: len(data)] = data
        self._position = end
        return len(data)

    def readall(self) -> bytes:
        """All that is left, in few requests: Python's own asks for 8 kB at a time."""
        pieces = []
        while piece := self.read(max(0, self._file.size - self._position)):
            pieces.append(piece)
        return b"".join(pieces)

    def _fetch(self, start: int, end: int) -> bytes:
        if self._whole is not None:
            return self._whole[start:end]
        try:
            data = self._ask(start, end)
        except BaseException:
            self._drop_handle()
            raise
        if len(data) == self._file.size != end - start:
            # A server that knows no ranges has sent everything: once is enough.
            self._whole = data
            return data[start:end]
        if len(data) != end - start:
            self._drop_handle()
            refuse_change(self._file)
            raise OSError(f"{len(data)} of {end - start} bytes from byte {start}")
        return data

    def _ask(self, start: int, end: int) -> bytes:
        if self._has_ranges:
            return bytes(self._filesystem.cat_file(self._path, start=start, end=end))
        if self._handle is None:
            self._handle = self._filesystem.open(self._path, "rb")
        self._handle.seek(start)
        return self._handle.read(end - start)

    def _drop_handle(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def close(self) -> None:
        """Let go of the file."""
        self._drop_handle()
        super().close()
