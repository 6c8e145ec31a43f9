"""The documents that a command measures on: ``--on PATH...`` and how they are read."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tokenizer.corpus.config import CorpusConfig
from tokenizer.errors import CorpusError
from tokenizer.options import OptionParser, add_options, field_docs, take_options

if TYPE_CHECKING:
    from tokenizer.corpus import Document, InputShard
    from tokenizer.progress import Progress

__all__ = ["DocumentReader", "add_documents"]

DOCUMENTS_BETWEEN_REPORTS = 1000
_HELD_OUT = ("held_out_fraction", "held_out_by", "held_out_seed")


def add_documents(parser: OptionParser, doc: str, *, held_out: bool = False) -> None:
    """Add ``--on PATH...`` and how documents are read; `doc` says what they are for.

    With `held_out`, the options that held out a share from training are taken, too, and only that share is read.
    """
    parser.add_argument(
        "--on", nargs="+", default=[], metavar="PATH", help=f"{doc} {field_docs(CorpusConfig)['paths']}"
    )
    title = "documents (with a held-out share, only those that it holds)" if held_out else "documents"
    without = ("paths", "shard_bytes", *(() if held_out else _HELD_OUT))
    add_options(parser, CorpusConfig, title=title, without=without)


class DocumentReader:
    """Reads the documents of some paths under a command's options, and counts what it reads and leaves out."""

    def __init__(self, options: argparse.Namespace, paths: Sequence[str], option: str = "--on") -> None:
        self._option = option  # what named the paths
        self._corpus = take_options(options, CorpusConfig, paths=tuple(paths))
        self.num_documents = 0
        self.skipped: list[str] = []

    def read(self, progress: "Progress", phase: str = "read documents") -> Iterator["Document"]:
        """Yield all documents, of a held-out share only its own; progress is in bytes of input."""
        from tokenizer.corpus import is_held_out, read_shard

        shards = self._list_shards()
        done, total = 0, sum(shard.size for shard in shards)
        for shard in shards:
            for document in read_shard(shard, self._corpus, skipped=self.skipped):
                if self.num_documents % DOCUMENTS_BETWEEN_REPORTS == 0:
                    progress(phase, done, total, f"{self.num_documents:,} documents")
                if not self._corpus.held_out_fraction or is_held_out(document, self._corpus):
                    self.num_documents += 1
                    yield document
            done += shard.size
        progress(phase, done, total, f"{self.num_documents:,} documents")

    def _list_shards(self) -> list["InputShard"]:
        from tokenizer.corpus import list_shards

        try:
            return list_shards(self._corpus)
        except CorpusError as error:
            raise type(error)(str(error).replace("corpus.paths", self._option)) from None

    def report_skipped(self) -> None:
        """Say on standard error how many documents were left out, if any."""
        if self.skipped:
            print(f"left out {len(self.skipped)} documents; the first: {self.skipped[0]}", file=sys.stderr)
