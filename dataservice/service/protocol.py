"""What clients ask of servers, as bytes: a line of JSON, and for tokens the ranges after it."""

import json
import zlib
from typing import Any, NamedTuple

import numpy as np

from dataservice.store.table import ShardTable

__all__ = ["FileRequest", "Request", "TokenRequest", "checksum", "parse_request"]

VERSION = 1


class FileRequest(NamedTuple):
    """A file of the store, by its name relative to the store's folder."""

    name: str

    def to_bytes(self) -> bytes:
        """The request on the wire."""
        return _header(request="file", name=self.name)


class TokenRequest(NamedTuple):
    """Stretches of shards: rows of one width, or pieces with lengths of their own.

    `prefix` is the digest of the tokenizer and of the first `num_shards` shards, of which alone rows are asked: a
    server that has others refuses.
    """

    held_out: bool
    num_shards: int
    prefix: str
    shards: np.ndarray  # int64[n]
    starts: np.ndarray  # int64[n]
    lengths: np.ndarray | int  # int64[n], or the width of all

    @classmethod
    def of(
        cls, table: ShardTable, shards: np.ndarray, starts: np.ndarray, lengths: np.ndarray | int, held_out: bool
    ) -> "TokenRequest":
        """The request for stretches of the shards of a table."""
        num_shards = int(shards.max(initial=-1)) + 1
        return cls(held_out, num_shards, table.prefix_digest(num_shards), shards, starts, lengths)

    @property
    def num_tokens(self) -> int:
        """Tokens in the answer."""
        return self.lengths * len(self.starts) if isinstance(self.lengths, int) else int(self.lengths.sum())

    def to_bytes(self) -> bytes:
        """The request on the wire."""
        width = self.lengths if isinstance(self.lengths, int) else None
        header = _header(
            request="tokens",
            held_out=self.held_out,
            num_shards=self.num_shards,
            prefix=self.prefix,
            rows=len(self.starts),
            width=width,
        )
        lengths = b"" if isinstance(self.lengths, int) else self.lengths.astype("<i8").tobytes()
        return header + self.shards.astype("<i4").tobytes() + self.starts.astype("<i8").tobytes() + lengths


Request = FileRequest | TokenRequest


def parse_request(data: bytes) -> Request:
    """Inverse of `to_bytes`; ValueError, which says what it must be, for anything else."""
    line, _, body = data.partition(b"\n")
    try:
        fields = json.loads(line)
        if fields["version"] != VERSION:
            got = fields["version"]
            raise ValueError(f"version of the request must be {VERSION}, got {got!r}; use the same DyadLM")
        if fields["request"] == "file" and isinstance(fields["name"], str) and not body:
            return FileRequest(fields["name"])
        if fields["request"] == "tokens":
            return _parse_tokens(fields, body)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        pass
    raise ValueError("request must be one for a file or for tokens, got other bytes; use a client of DyadLM")


def _parse_tokens(fields: dict[str, Any], body: bytes) -> TokenRequest:
    rows, width, num_shards = fields["rows"], fields["width"], fields["num_shards"]
    for number in (rows, num_shards, 0 if width is None else width):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 40:
            raise TypeError("not a count")
    sizes = [4 * rows, 8 * rows, 8 * rows if width is None else 0]
    if len(body) != sum(sizes):
        raise KeyError("other ranges than it counts")
    shards = np.frombuffer(body, "<i4", rows).astype(np.int64)
    starts = np.frombuffer(body, "<i8", rows, sizes[0])
    lengths = np.frombuffer(body, "<i8", rows, sizes[0] + sizes[1]) if width is None else width
    if rows and not 0 <= shards.min() <= shards.max() < num_shards:
        raise ValueError(f"shards of the request must be below {num_shards}, got others; use a client of DyadLM")
    return TokenRequest(bool(fields["held_out"]), num_shards, str(fields["prefix"]), shards, starts, lengths)


def checksum(data: Any) -> bytes:
    """What goes with each piece of an answer: CRC-32 of its bytes, which need not be copied."""
    return zlib.crc32(data).to_bytes(4, "little")


def _header(**fields: Any) -> bytes:
    return json.dumps({"version": VERSION, **fields}).encode() + b"\n"
