"""Documents in Parquet files, read by row groups."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tokenizer.corpus.columns import DocumentColumns, choose_columns
from tokenizer.corpus.config import CorpusConfig
from tokenizer.corpus.documents import Document, InputShard, Report, SourceFile
from tokenizer.corpus.sources import open_source
from tokenizer.errors import CorpusError

__all__ = ["read_parquet", "row_group_sizes"]

BATCH_ROWS = 1024
# Arrow asks for whole columns; the buffer is for footers.
REMOTE_BUFFER_BYTES = 64 << 10


def row_group_sizes(source: SourceFile, config: CorpusConfig) -> list[tuple[int, int]]:
    """List (number, bytes before compression) of a file's row groups; raises CorpusError for an unreadable footer.

    With ``on_error="skip"`` an unreadable file is listed as one row group, which then fails, and is counted, when read.
    """
    try:
        with pq.ParquetFile(open_source(source, REMOTE_BUFFER_BYTES)) as file:
            metadata = file.metadata
            return [(group, metadata.row_group(group).total_byte_size) for group in range(metadata.num_row_groups)]
    except (pa.ArrowException, OSError) as error:
        if config.on_error == "skip":
            return [(0, 0)]
        raise CorpusError(f"{_unreadable(error)}: {source.location}") from None


def read_parquet(shard: InputShard, config: CorpusConfig, report: Report) -> Iterator[Document]:
    """Yield the documents of a shard's row groups, a thousand rows in memory at a time; rows count from 0 in a file."""
    (source,) = shard.files
    row = 0
    try:
        with pq.ParquetFile(open_source(source, REMOTE_BUFFER_BYTES)) as file:
            columns = choose_columns(file.schema_arrow.names, config)
            if isinstance(columns, str):
                return report(f"{columns}: {source.location}")
            kind = file.schema_arrow.field(columns.text).type
            if not _holds_text(kind):
                return report(
                    f"text_column must name a column of strings, got {kind} in {columns.text!r}: {source.location}"
                )
            row = sum(file.metadata.row_group(group).num_rows for group in range(min(shard.row_groups)))
            names = [name for name in dict.fromkeys(columns) if name is not None]
            for batch in file.iter_batches(BATCH_ROWS, row_groups=list(shard.row_groups), columns=names):
                yield from _batch_documents(batch, columns, row, source, report)
                row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        report(f"{_unreadable(error)}: {source.location} from row {row}")


def _batch_documents(
    batch: pa.RecordBatch, columns: DocumentColumns, first_row: int, source: SourceFile, report: Report
) -> Iterator[Document]:
    text_column = batch.column(columns.text)
    if not (pa.types.is_string(text_column.type) or pa.types.is_large_string(text_column.type)):
        text_column = text_column.cast(pa.large_binary())
    # offsets: (rows + 1,). Decoding from the buffer makes no other object per row, and names the row that is not UTF-8.
    _, offsets, data = text_column.buffers()
    width = np.int32 if pa.types.is_string(text_column.type) else np.int64
    bounds = np.frombuffer(offsets, width)[text_column.offset :].tolist()
    text_bytes = memoryview(data) if data is not None else memoryview(b"")
    is_valid = text_column.is_valid().to_pylist()
    location, name = source.location, Path(source.path).name
    repositories, languages, paths = (
        _strings(batch, column) for column in (columns.repository, columns.language, columns.path)
    )
    for index in range(batch.num_rows):
        if not is_valid[index]:
            report(f"text must be a string, got null in row {first_row + index} of {location}")
            continue
        try:
            text = str(text_bytes[bounds[index] : bounds[index + 1]], "utf-8")
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            report(
                f"text must be UTF-8, got byte 0x{byte:02x} at {error.start} in row {first_row + index} of {location}"
            )
            continue
        path = paths[index] if columns.path else f"{name}:{first_row + index}"
        yield Document(text, repositories[index], languages[index], path)


def _holds_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    tests = (
        "is_string",
        "is_large_string",
        "is_string_view",
        "is_binary",
        "is_large_binary",
        "is_binary_view",
        "is_null",
    )
    return any(getattr(pa.types, test)(kind) for test in tests)


def _strings(batch: pa.RecordBatch, column: str | None) -> list[str]:
    """Values of a column as strings, null as ""; equal values share one object."""
    if column is None:
        return [""] * batch.num_rows
    values = batch.column(column).cast(pa.string()).fill_null("").dictionary_encode()
    distinct = values.dictionary.to_pylist()
    return [distinct[index] for index in values.indices.to_pylist()]


def _unreadable(error: Exception) -> str:
    reason = str(error).partition("\n")[0].rstrip(".")
    return f"Parquet file must be whole and readable, got {reason}"
