"""Documents in ArrayRecord files (the format of grain), read by runs of records."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizer.corpus.config import CorpusConfig
from tokenizer.corpus.documents import Document, InputShard, Report, SourceFile
from tokenizer.corpus.json_lines import parse_record
from tokenizer.corpus.sources import local_copy
from tokenizer.errors import CorpusError

__all__ = ["read_array_record", "record_run_sizes"]

# Records in a run: read at once, so also what is in memory at a time.
RUN_RECORDS = 1024


def record_run_sizes(file: SourceFile, config: CorpusConfig) -> list[tuple[int, int]]:
    """List (number, about how many bytes) of a file's runs of records; raises CorpusError for an unreadable file.

    With ``on_error="skip"`` an unreadable file is listed as one run, which then fails, and is counted, when read.
    """
    try:
        count = len(_open(file.location))
    except RuntimeError as error:
        if config.on_error == "skip":
            return [(0, 0)]
        raise CorpusError(f"{_unreadable(error)}: {file.location}") from None
    counts = [min(RUN_RECORDS, count - start) for start in range(0, count, RUN_RECORDS)]
    return [(run, file.size * records // count) for run, records in enumerate(counts)]


def read_array_record(shard: InputShard, config: CorpusConfig, report: Report) -> Iterator[Document]:
    """Yield the documents of a shard's runs, or of all of a remote file's; records count from 0 in a file."""
    (file,) = shard.files
    name = Path(file.path).name
    number = 0
    try:
        with local_copy(file) as path:
            source = _open(path)
            for run in shard.row_groups or range(-(-len(source) // RUN_RECORDS)):
                number = run * RUN_RECORDS
                for record in source.__getitems__(range(number, min(number + RUN_RECORDS, len(source)))):
                    document = _parse(record, config, f"{name}:{number}")
                    if isinstance(document, str):
                        report(f"{document}: record {number} of {file.location}")
                    else:
                        yield document
                    number += 1
    except RuntimeError as error:
        report(f"{_unreadable(error)}: {file.location} from record {number}")


def _open(location: str) -> Any:
    # grain's stubs know neither its length nor its records.
    from grain.sources import ArrayRecordDataSource

    return ArrayRecordDataSource([location])


def _parse(record: bytes, config: CorpusConfig, place: str) -> Document | str:
    if config.records == "json":
        return parse_record(record, config, place)
    try:
        return Document(record.decode(), "", "", place)
    except UnicodeDecodeError as error:
        return f"text must be UTF-8, got byte 0x{error.object[error.start]:02x} at {error.start}"


def _unreadable(error: Exception) -> str:
    return f"ArrayRecord file must be whole and readable, got {str(error).partition('; at byte')[0]}"
