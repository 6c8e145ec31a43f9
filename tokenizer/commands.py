"""The commands of ``python -m tokenizer``; heavy modules are imported by the command that needs them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tokenizer.config import TokenizerConfig
from tokenizer.corpus.config import CorpusConfig
from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, add_option, add_options, field_docs, run_command, take_options

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0, 2 after one line about bad input, 130 after Ctrl-C."""
    return run_command(
        _make_parser(), arguments, errors=(TokenizerError,), interrupted="interrupted: nothing was written"
    )


def _make_parser() -> OptionParser:
    parser = OptionParser(
        prog="python -m tokenizer", description="Train and use BPE and source-attributed BPE tokenizers."
    )
    train = parser.add_command("train", _train, "PATH... --output DIR", "Train a tokenizer on documents.")
    train.add_argument("paths", nargs="+", metavar="PATH", help=field_docs(CorpusConfig)["paths"])
    add_option(train, "--output", str, "Folder to write the tokenizer to.", metavar="DIR")
    add_option(train, "--workers", int, "Processes that count words.", default=1, least=1)
    add_options(train, TokenizerConfig, title="tokenizer", without=("path",))
    add_options(train, CorpusConfig, title="documents", without=("paths",))

    encode = parser.add_command("encode", _encode, "--tokenizer DIR [FILE]", "Turn text into token ids.")
    add_option(encode, "--tokenizer", str, "Folder of the tokenizer.", metavar="DIR")
    encode.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="UTF-8 text; - or nothing: standard input."
    )
    special = "Special tokens to recognise in the text."
    add_option(encode, "--allow-special", tuple[str, ...], special, default=())
    output = "Array to write; null: ids between spaces on standard output."
    add_option(encode, "--output", str | None, output, default=None, metavar="FILE.npy")

    decode = parser.add_command("decode", _decode, "--tokenizer DIR [FILE]", "Turn token ids into text.")
    add_option(decode, "--tokenizer", str, "Folder of the tokenizer.", metavar="DIR")
    ids = "Ids between spaces, or an .npy array; - or nothing: standard input."
    decode.add_argument("file", nargs="?", default="-", metavar="FILE", help=ids)
    output = "File to write; null: standard output."
    add_option(decode, "--output", str | None, output, default=None, metavar="FILE")
    export = parser.add_command("export", _export, "--tokenizer DIR --output FILE", "Write a tokenizer for others.")
    add_option(export, "--tokenizer", str, "Folder of the tokenizer.", metavar="DIR")
    add_option(export, "--output", str, "File to write.", metavar="FILE")
    kinds = "What to write: tiktoken ranks without the special tokens, or Hugging Face's tokenizer.json."
    add_option(export, "--format", Literal["tiktoken", "huggingface"], kinds, default="tiktoken")

    take = parser.add_command("import", _import, "FILE --output DIR", "Take over a tokenizer, with the same ids.")
    source = "tokenizer.json of byte-level BPE, or its folder; or a file of tiktoken ranks."
    take.add_argument("file", metavar="FILE", help=source)
    add_option(take, "--output", str, "Folder to write the tokenizer to.", metavar="DIR")
    add_option(take, "--pattern", str, "Of tiktoken ranks: a name or a regular expression.", default="gpt4")
    more = "Special tokens for the ids after the last; a store needs <eod>."
    add_option(take, "--special-tokens", tuple[str, ...], more, default=())
    dropped = "Take a tokenizer that normalises text without that: ids of text in another form then differ."
    add_option(take, "--drop-normalizer", bool, dropped, default=False)
    return parser


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


def _encode(options: argparse.Namespace) -> int:
    from tokenizer.vocabulary import Tokenizer

    tokenizer = Tokenizer.load(options.tokenizer)
    try:
        text = _read(options.file).decode()
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"text must be UTF-8, got byte 0x{error.object[error.start]:02x} at {error.start} of {options.file}"
        ) from None
    ids = tokenizer.encode(text, allowed_special=options.allow_special)
    if options.output is None:
        print(*ids)
        return 0
    import io

    import numpy as np

    from tokenizer.artefact import write_file

    buffer = io.BytesIO()
    np.save(buffer, np.array(ids, tokenizer.dtype))
    write_file(Path(options.output), buffer.getvalue())
    print(f"wrote {options.output}: {len(ids):,} token ids of {len(text):,} characters")
    return 0


def _decode(options: argparse.Namespace) -> int:
    import io

    import numpy as np

    from tokenizer.artefact import write_file
    from tokenizer.vocabulary import Tokenizer

    tokenizer = Tokenizer.load(options.tokenizer)
    data = _read(options.file)
    try:
        is_array = data.startswith(b"\x93NUMPY")
        ids = np.load(io.BytesIO(data)) if is_array else np.array(data.split(), np.int64)
    except ValueError as error:
        raise TokenizerError(f"ids must be integers between spaces or an .npy array, got {error}") from None
    text = tokenizer.decode_bytes(ids)
    if options.output is None:
        sys.stdout.buffer.write(text)
    else:
        write_file(Path(options.output), text)
        print(f"wrote {options.output}: {len(text):,} bytes of {len(ids):,} token ids")
    return 0


def _export(options: argparse.Namespace) -> int:
    from tokenizer.artefact import TOKENIZER, write_file
    from tokenizer.interchange.tiktoken_ranks import export_tiktoken
    from tokenizer.vocabulary import Tokenizer

    tokenizer = Tokenizer.load(options.tokenizer)
    if options.format == "tiktoken":
        content = export_tiktoken(tokenizer)
        rest = f"ranks; tiktoken wants the pattern {tokenizer.pattern!r} and special tokens {tokenizer.special_tokens}"
    else:
        content, rest = (Path(options.tokenizer) / TOKENIZER).read_bytes(), "for tokenizers and transformers"
    write_file(Path(options.output), content)
    print(f"wrote {options.output}: {rest}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from tokenizer.artefact import check_output
    from tokenizer.vocabulary import Tokenizer

    check_output(Path(options.output))
    path, specials = Path(options.file), options.special_tokens
    if path.is_dir() or path.suffix == ".json":
        tokenizer = Tokenizer.from_huggingface(path, special_tokens=specials, drop_normalizer=options.drop_normalizer)
    else:
        tokenizer = Tokenizer.from_tiktoken(path, pattern=options.pattern, special_tokens=specials)
    tokenizer.save(options.output)
    print(f"wrote {options.output}: {tokenizer.vocab_size} tokens, {tokenizer.fingerprint}")
    return 0


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise TokenizerError(f"file must be readable, got {error.strerror}: {file}") from None
