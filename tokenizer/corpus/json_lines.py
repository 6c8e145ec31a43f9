"""Documents in JSON lines, plain or compressed."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from tokenizer.corpus.columns import choose_columns
from tokenizer.corpus.config import CorpusConfig
from tokenizer.corpus.documents import Document, InputShard, Report, SourceFile
from tokenizer.corpus.remote import is_url
from tokenizer.corpus.sources import has_ranges, open_bytes, open_source

__all__ = ["line_spans", "parse_record", "read_json_lines"]

BUFFER_BYTES = 1 << 20
REMOTE_BUFFER_BYTES = 8 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line, where it is for people, and what its document is called that has no path."""

    content: bytes
    place: str
    name: str


def line_spans(file: SourceFile, config: CorpusConfig) -> list[tuple[int, int]]:
    """Cut a file into spans of `shard_bytes` bytes, for the lines that begin in them; one where it is read at once.

    A function of the file and the setting alone.
    """
    if _compression(file.path) is not None or file.size <= config.shard_bytes or not has_ranges(file.location):
        return [(0, file.size)]
    starts = range(0, file.size, config.shard_bytes)
    return [(start, min(start + config.shard_bytes, file.size)) for start in starts]


def read_json_lines(shard: InputShard, config: CorpusConfig, report: Report) -> Iterator[Document]:
    """Yield a document per line of a shard; blank lines are passed over."""
    (source,) = shard.files
    line = Line(b"", "the start", "")
    try:
        for line in _whole_lines(source) if shard.span is None else _lines_between(source, *shard.span):
            if not line.content.strip():
                continue
            document = parse_record(line.content, config, line.name)
            if isinstance(document, str):
                report(f"{document}: {line.place} of {source.location}")
            else:
                yield document
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        report(f"file must be whole and readable, got {reason}: {source.location} after {line.place}")


def _whole_lines(source: SourceFile) -> Iterator[Line]:
    """Yield the lines of a file, which count from 1, as in editors."""
    name = Path(source.path).name
    # Arrow's streams, unlike zstandard's, refuse a truncated file, and read concatenated members.
    opened = open_source(source, REMOTE_BUFFER_BYTES)
    with pa.input_stream(opened, compression=_compression(source.path)) as stream:
        for number, content in enumerate(io.BufferedReader(stream, BUFFER_BYTES), 1):
            content = content.removeprefix(BYTE_ORDER_MARK) if number == 1 else content
            yield Line(content, f"line {number}", f"{name}:{number}")


def _lines_between(source: SourceFile, start: int, stop: int) -> Iterator[Line]:
    """Yield the lines that begin at a byte from `start` up to `stop`: how many lines are before is not known."""
    name = Path(source.path).name
    with open_bytes(source, REMOTE_BUFFER_BYTES if is_url(source.location) else BUFFER_BYTES) as stream:
        at = start
        if start:
            # From the byte before, which ends a line where one begins here.
            stream.seek(start - 1)
            at = start - 1 + _pass_line(stream, stop - start + 1)
        while at < stop and (content := stream.readline()):
            whole = content.removeprefix(BYTE_ORDER_MARK) if at == 0 else content
            yield Line(whole, f"the line at byte {at}", f"{name}@{at}")
            at += len(content)


def _pass_line(stream: BinaryIO, limit: int) -> int:
    """Read to the end of a line, or `limit` bytes of it; how many were read."""
    num_read = 0
    while num_read < limit and (piece := stream.readline(min(BUFFER_BYTES, limit - num_read))):
        num_read += len(piece)
        if piece.endswith(b"\n"):
            break
    return num_read


def _compression(path: str) -> str | None:
    return {".gz": "gzip", ".zst": "zstd"}.get(Path(path).suffix.lower())


def parse_record(line: bytes, config: CorpusConfig, place: str) -> Document | str:
    """Make a document of a JSON object; the answer is a line of text about what is wrong when that cannot be done."""
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError as error:
        return f"line must be UTF-8, got byte 0x{error.object[error.start]:02x} at {error.start}"
    except (ValueError, RecursionError) as error:
        return f"line must be a JSON object, got {error}"
    if not isinstance(record, dict):
        return f"line must be a JSON object, got {type(record).__name__}"
    columns = choose_columns(record, config)
    if isinstance(columns, str):
        return columns
    fields = [record[column] if column else "" for column in columns]
    text, *sources = fields
    if not isinstance(text, str):
        return f"{columns.text} must be a string, got {type(text).__name__}"
    repository, language, path = ("" if field is None else str(field) for field in sources)
    document = Document(text, repository, language, path or place)
    for field in document:
        # JSON may spell half of a surrogate pair ("\ud800"), which no UTF-8 can hold.
        if not _is_unicode(field):
            return f"{columns.text} must be Unicode text, got a lone surrogate"
    return document


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
