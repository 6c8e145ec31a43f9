"""The documents that a command measures on: ``--on PATH...`` and how they are read."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tokenizer.corpus.config import CorpusConfig
from tokenizer.options import OptionParser, add_options, field_docs, take_options

if TYPE_CHECKING:
    from tokenizer.corpus import Document
    from tokenizer.progress import Progress

__all__ = ["DocumentReader", "add_documents"]

DOCUMENTS_BETWEEN_REPORTS = 1000
_NOT_ASKED = ("held_out_fraction", "held_out_by", "held_out_seed", "shard_bytes")


def add_documents(parser: OptionParser, doc: str) -> None:
    """Add ``--on PATH...`` and how documents are read; `doc` says what they are for."""
    parser.add_argument(
        "--on", nargs="+", default=[], metavar="PATH", help=f"{doc} {field_docs(CorpusConfig)['paths']}"
    )
    add_options(parser, CorpusConfig, title="documents", without=("paths", *_NOT_ASKED))


class DocumentReader:
    """Reads the documents of some paths under a command's options, and counts what it reads and leaves out."""

    def __init__(self, options: argparse.Namespace, paths: Sequence[str]) -> None:
        self._corpus = take_options(options, CorpusConfig, paths=tuple(paths))
        self.num_documents = 0
        self.skipped: list[str] = []

    def read(self, progress: "Progress", phase: str = "read documents") -> Iterator["Document"]:
        """Yield all documents; progress is in bytes of input."""
        from tokenizer.corpus import list_shards, read_shard

        shards = list_shards(self._corpus)
        done, total = 0, sum(shard.size for shard in shards)
        for shard in shards:
            for document in read_shard(shard, self._corpus, skipped=self.skipped):
                if self.num_documents % DOCUMENTS_BETWEEN_REPORTS == 0:
                    progress(phase, done, total, f"{self.num_documents:,} documents")
                self.num_documents += 1
                yield document
            done += shard.size
        progress(phase, done, total, f"{self.num_documents:,} documents")

    def report_skipped(self) -> None:
        """Say on standard error how many documents were left out, if any."""
        if self.skipped:
            print(f"left out {len(self.skipped)} documents; the first: {self.skipped[0]}", file=sys.stderr)
