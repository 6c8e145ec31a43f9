"""Which documents to read, and how: the settings of a corpus."""

from dataclasses import dataclass
from typing import Literal

from tokenizer.errors import CorpusError

__all__ = ["SOURCE_EXTENSIONS", "CorpusConfig"]

_EXTENSIONS = """
py pyi pyx pxd pxi c h cc cpp cxx hpp cu cuh f90 go rs zig java kt scala groovy swift m cs fs js jsx mjs ts tsx vue rb
php pl lua r jl hs ml erl ex clj lisp sh ps1 bat cmake sql proto html css md rst txt tex yaml yml toml ini cfg
"""

SOURCE_EXTENSIONS: tuple[str, ...] = tuple(_EXTENSIONS.split())
"""Extensions of text that is written by people: programs, markup and configuration."""


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Sources of documents and the rules for taking documents from them."""

    paths: tuple[str, ...] = ()
    """Sources, read in this order: "packages:" (every installed Python distribution) or "packages:numpy,jax"; a folder
    of source files; .parquet; .jsonl or .json lines, plain, .gz or .zst; .array_record; any other file is one
    document. Globs too. And the URLs of fsspec, which has their options in a configuration of its own: s3://, gs://,
    hf://, https://, memory://, zip://*.jsonl::https://HOST/FILE.zip; a glob there has * or [ ]."""
    records: Literal["json", "text"] = "json"
    """What a record of an ArrayRecord file is. json: an object with the columns as keys; text: a document's text."""
    text_column: str = "text"
    """Column of Parquet, JSON lines and JSON records that holds a document's text."""
    repository_column: str | None = None
    """Column naming a document's repository; null: repository, repo or repo_name, whichever exists first, else ""."""
    language_column: str | None = None
    """Column naming a document's language; null: language, lang or programming_language if it exists, else ""."""
    path_column: str | None = None
    """Column naming a document's path; null: path, file_path or file if it exists, else FILE:ROW, or
    FILE@BYTE in JSON lines that are read in parts."""
    languages: tuple[str, ...] = ()
    """Keep only documents of these languages (of source files: the extension without its dot); empty: all."""
    repositories: tuple[str, ...] = ()
    """Keep only documents of these repositories; empty: all."""
    extensions: tuple[str, ...] = SOURCE_EXTENSIONS
    """Extensions, without the dot, of the files taken from folders and installed packages."""
    max_document_bytes: int | None = None
    """Leave out, and report, documents longer than this many bytes of UTF-8; null: keep all."""
    on_error: Literal["raise", "skip"] = "raise"
    """What an unreadable document or file does: stop with one line that names it, or be left out and reported. A source
    that does not answer is never left out; with skip, python -m dataservice prepare finishes all others first."""
    held_out_fraction: float = 0.0
    """Share of repositories (or documents) kept for evaluation and never trained on."""
    held_out_by: Literal["repository", "document"] = "repository"
    """Hold out whole repositories, since documents of one project leak into each other, or single documents.
    Documents without a repository are always chosen singly."""
    held_out_seed: int = 0
    """Another seed holds out other repositories (or documents)."""
    shard_bytes: int = 8 << 20
    """Source files, and the row groups or records of a table, are grouped into input shards of about this many bytes;
    JSON lines are cut into parts of it. A file of JSON lines that is compressed, in an archive or behind http(s) is one
    shard: reading a part of it may mean reading all that is before."""

    def __post_init__(self) -> None:
        if not 0 <= self.held_out_fraction < 1:
            raise CorpusError(f"held_out_fraction must be at least 0 and below 1, got {self.held_out_fraction}")
        if self.shard_bytes < 1:
            raise CorpusError(f"shard_bytes must be at least 1, got {self.shard_bytes}; 8388608 is a good size")
        if self.max_document_bytes is not None and self.max_document_bytes < 1:
            raise CorpusError(f"max_document_bytes must be null or at least 1, got {self.max_document_bytes}")
        if self.on_error not in ("raise", "skip"):
            raise CorpusError(f"on_error must be raise or skip, got {self.on_error!r}")
        if self.records not in ("json", "text"):
            raise CorpusError(f"records must be json or text, got {self.records!r}")
        if self.held_out_by not in ("repository", "document"):
            raise CorpusError(f"held_out_by must be repository or document, got {self.held_out_by!r}")
        for extension in self.extensions:
            if extension.startswith(".") or extension != extension.lower():
                raise CorpusError(f"extensions must be lower case without a dot, got {extension!r}")
