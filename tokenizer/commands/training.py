"""``train`` and ``extend``: documents to a tokenizer."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizer.config import EXTENSION_SETTINGS, TokenizerConfig
from tokenizer.corpus.config import CorpusConfig
from tokenizer.options import OptionParser, add_option, add_options, field_docs, take_options

if TYPE_CHECKING:
    from tokenizer.vocabulary import Tokenizer

__all__ = ["add_commands"]


def add_commands(parser: OptionParser) -> None:
    """Add ``train`` and ``extend``."""
    train = parser.add_command("train", _train, "PATH... --output DIR", "Train a tokenizer on documents.")
    train.add_argument("paths", nargs="+", metavar="PATH", help=field_docs(CorpusConfig)["paths"])
    _add_settings(train, without=("path",))

    usage, doc = "DIR PATH... --num-merges N --output DIR", "Add merges to a tokenizer, from documents; ids are kept."
    extend = parser.add_command("extend", _extend, usage, doc)
    extend.add_argument("tokenizer", metavar="DIR", help="Folder of the tokenizer to extend.")
    extend.add_argument("paths", nargs="+", metavar="PATH", help=field_docs(CorpusConfig)["paths"])
    added = "Merges to add; their ids follow the last id of the tokenizer."
    add_option(extend, "--num-merges", int, added, least=1)
    own = tuple(name for name in field_docs(TokenizerConfig) if name not in EXTENSION_SETTINGS)
    _add_settings(extend, without=own)


def _add_settings(command: OptionParser, *, without: tuple[str, ...]) -> None:
    add_option(command, "--output", str, "Folder to write the tokenizer to.", metavar="DIR")
    add_option(command, "--workers", int, "Processes that count words.", default=1, least=1)
    add_options(command, TokenizerConfig, title="tokenizer", without=without)
    add_options(command, CorpusConfig, title="documents", without=("paths",))


def _train(options: argparse.Namespace) -> int:
    config = take_options(options, TokenizerConfig)
    corpus = take_options(options, CorpusConfig, paths=tuple(options.paths))
    from tokenizer.artefact import check_output
    from tokenizer.corpus import list_shards
    from tokenizer.progress import show_progress
    from tokenizer.training import train_on_shards

    replaces = check_output(Path(options.output))
    with show_progress() as progress:
        shards = list_shards(corpus)
        tokenizer = train_on_shards(shards, corpus, config, progress=progress, processes=options.workers)
    return _save(tokenizer, options.output, replaces)


def _extend(options: argparse.Namespace) -> int:
    settings = {name: getattr(options, name) for name in EXTENSION_SETTINGS}
    TokenizerConfig(**settings)  # refused before anything is read
    corpus = take_options(options, CorpusConfig, paths=tuple(options.paths))
    from tokenizer.artefact import check_output
    from tokenizer.corpus import list_shards
    from tokenizer.extension import extend_on_shards
    from tokenizer.progress import show_progress
    from tokenizer.vocabulary import Tokenizer

    replaces = check_output(Path(options.output))
    base = Tokenizer.load(options.tokenizer)
    with show_progress() as progress:
        settings |= {"num_merges": options.num_merges, "processes": options.workers}
        tokenizer = extend_on_shards(base, list_shards(corpus), corpus, progress=progress, **settings)
    return _save(tokenizer, options.output, replaces)


def _save(tokenizer: "Tokenizer", output: str, replaces: bool) -> int:
    """Save and say so in one line."""
    tokenizer.save(output)
    documents = tokenizer.provenance["corpus"]["documents"]
    print(
        f"wrote {output}: {tokenizer.vocab_size} tokens from {documents} documents, {tokenizer.fingerprint}"
        + ", in place of the tokenizer that was there" * replaces
    )
    return 0
