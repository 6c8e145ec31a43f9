"""``train``: documents to a tokenizer."""

import argparse
from pathlib import Path

from tokenizer.config import TokenizerConfig
from tokenizer.corpus.config import CorpusConfig
from tokenizer.options import OptionParser, add_option, add_options, field_docs, take_options

__all__ = ["add_commands"]


def add_commands(parser: OptionParser) -> None:
    """Add ``train``."""
    train = parser.add_command("train", _train, "PATH... --output DIR", "Train a tokenizer on documents.")
    train.add_argument("paths", nargs="+", metavar="PATH", help=field_docs(CorpusConfig)["paths"])
    add_option(train, "--output", str, "Folder to write the tokenizer to.", metavar="DIR")
    add_option(train, "--workers", int, "Processes that count words.", default=1, least=1)
    add_options(train, TokenizerConfig, title="tokenizer", without=("path",))
    add_options(train, CorpusConfig, title="documents", without=("paths",))


def _train(options: argparse.Namespace) -> int:
    config = take_options(options, TokenizerConfig)
    corpus = take_options(options, CorpusConfig, paths=tuple(options.paths))
    from tokenizer.artefact import check_output
    from tokenizer.corpus import list_shards
    from tokenizer.progress import show_progress
    from tokenizer.training import train_on_shards

    check_output(Path(options.output))
    with show_progress() as progress:
        shards = list_shards(corpus)
        tokenizer = train_on_shards(shards, corpus, config, progress=progress, processes=options.workers)
    tokenizer.save(options.output)
    documents = tokenizer.provenance["corpus"]["documents"]
    print(f"wrote {options.output}: {tokenizer.vocab_size} tokens from {documents} documents, {tokenizer.fingerprint}")
    return 0
