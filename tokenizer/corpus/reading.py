"""All documents of an input shard."""

from collections.abc import Callable, Iterator
from pathlib import Path

from tokenizer.corpus.columns import NAMING_FAULT
from tokenizer.corpus.config import CorpusConfig
from tokenizer.corpus.documents import Document, InputShard, Report
from tokenizer.corpus.sources import refuse_changed, whole_source
from tokenizer.errors import CorpusError

__all__ = ["read_shard"]


def read_shard(shard: InputShard, config: CorpusConfig, *, skipped: list[str] | None = None) -> Iterator[Document]:
    """Yield the documents of a shard in a fixed order, held-out ones too, filtered by language, repository and length.

    Args:
        shard: One of ``list_shards(config)``.
        config: The settings of the corpus.
        skipped: Gets one line for every document or file left out because it cannot be read (with
            ``on_error="skip"``) or is longer than ``max_document_bytes``. Other languages and repositories are
            not mentioned.

    Raises:
        CorpusError: naming file and row, for what cannot be read, unless ``on_error="skip"``.
        SourceError: naming the file, for one that does not answer, is gone or has changed since it was listed.
    """
    lines = [] if skipped is None else skipped

    def report(line: str) -> None:
        if config.on_error == "raise" and NAMING_FAULT in line:
            raise CorpusError(f"{line}; set it to the column that is meant")
        if config.on_error == "raise":
            raise CorpusError(f"{line}; corpus.on_error=skip leaves such documents out and counts them")
        lines.append(line)

    for document in _reader(shard)(shard, config, report):
        if config.languages and document.language not in config.languages:
            continue
        if config.repositories and document.repository not in config.repositories:
            continue
        if config.max_document_bytes is not None and _num_bytes(document.text) > config.max_document_bytes:
            lines.append(f"{document.path} is longer than max_document_bytes {config.max_document_bytes}")
            continue
        yield document
    for file in shard.files:
        refuse_changed(file)


def _reader(shard: InputShard) -> Callable[[InputShard, CorpusConfig, Report], Iterator[Document]]:
    match shard.reader:
        case "parquet":
            from tokenizer.corpus.parquet import read_parquet  # pyarrow takes 0.1 s to import

            return read_parquet
        case "jsonl":
            from tokenizer.corpus.json_lines import read_json_lines

            return read_json_lines
        case "array_record":
            from tokenizer.corpus.array_records import read_array_record  # grain takes a second to import

            return read_array_record
        case "text":
            return _read_text_files


def _read_text_files(shard: InputShard, config: CorpusConfig, report: Report) -> Iterator[Document]:
    for file in shard.files:
        try:
            text = whole_source(file).decode()
        except UnicodeDecodeError as error:
            report(
                f"text must be UTF-8, got byte 0x{error.object[error.start]:02x} at {error.start} of {file.location}"
            )
        except OSError as error:
            report(f"file must be readable, got {error.strerror or error}: {file.location}")
        else:
            yield Document(text, file.repository, Path(file.path).suffix.removeprefix(".").lower(), file.path)


def _num_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
