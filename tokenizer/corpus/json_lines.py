"""Documents in JSON lines, plain or compressed."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tokenizer.corpus.columns import choose_columns
from tokenizer.corpus.config import CorpusConfig
from tokenizer.corpus.documents import Document, InputShard, Report
from tokenizer.corpus.sources import open_source

__all__ = ["parse_record", "read_json_lines"]

BUFFER_BYTES = 1 << 20
REMOTE_BUFFER_BYTES = 8 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_json_lines(shard: InputShard, config: CorpusConfig, report: Report) -> Iterator[Document]:
    """Yield a document per line of a file; blank lines are passed over. Lines count from 1, as in editors."""
    (source,) = shard.files
    number = 0
    try:
        # Arrow's streams, unlike zstandard's, refuse a truncated file, and read concatenated members.
        opened = open_source(source, REMOTE_BUFFER_BYTES)
        with pa.input_stream(opened, compression=_compression(source.path)) as stream:
            for number, line in enumerate(io.BufferedReader(stream, BUFFER_BYTES), 1):
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                if not line.strip():
                    continue
                document = parse_record(line, config, f"{Path(source.path).name}:{number}")
                if isinstance(document, str):
                    report(f"{document}: line {number} of {source.location}")
                else:
                    yield document
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        report(f"file must be whole and readable, got {reason}: {source.location} after line {number}")


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
