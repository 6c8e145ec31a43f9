"""Documents, where they come from, and which of them are held out."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tokenizer.corpus.config import CorpusConfig

__all__ = ["Document", "InputShard", "Report", "SourceFile", "is_held_out"]

Report = Callable[[str], None]
"""Takes one line about a document or file that cannot be read; raises it, or keeps it and returns."""


class Document(NamedTuple):
    """A text and its source; ``repository``, ``language`` and ``path`` may be empty."""

    text: str
    repository: str
    language: str
    path: str


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file, and what its document says about its source (unless columns inside say so)."""

    location: str
    """Path, or URL of a file system of fsspec."""
    repository: str
    path: str
    size: int
    modified: int
    """Nanoseconds since the epoch; 0 for remote files."""
    version: str = ""
    """What a remote file system gives to tell one state of a file from another: its ETag, digest or time."""


@dataclass(frozen=True, kw_only=True)
class InputShard:
    """A piece of a corpus that is read as one task: source files, row groups, records, or JSON lines of a file."""

    name: str
    """Unique in its corpus, and safe as the name of a folder."""
    size: int
    """Bytes of the files; for Parquet, bytes before compression."""
    identity: str
    """Hex digest of location, size and modification time or version: changes when the input changes."""
    reader: Literal["text", "parquet", "jsonl", "array_record"]
    files: tuple[SourceFile, ...]
    row_groups: tuple[int, ...] = ()
    """Numbers of the row groups of a Parquet file, or of the runs of 1,024 records of an ArrayRecord file (none:
    all)."""
    span: tuple[int, int] | None = None
    """Of a file of JSON lines that is read in parts: the lines of this part begin at bytes from the first of these up
    to the second."""


def is_held_out(document: Document, config: CorpusConfig) -> bool:
    """Whether a document belongs to the held-out share, a pure function of its repository (or text) and the seed.

    Single documents are chosen by their text alone, so that copies of one text never lie on both sides.
    """
    if config.held_out_fraction == 0:
        return False
    by_repository = config.held_out_by == "repository" and document.repository
    subject = document.repository if by_repository else document.text
    key = config.held_out_seed.to_bytes(16, "little", signed=True)
    digest = hashlib.blake2b(subject.encode(), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "little") < config.held_out_fraction * 2.0**64
