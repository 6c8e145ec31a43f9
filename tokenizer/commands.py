"""The commands of ``python -m tokenizer``; heavy modules are imported by the command that needs them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizer.config import TokenizerConfig
from tokenizer.corpus.config import CorpusConfig
from tokenizer.errors import TokenizerError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0, 2 after one line about bad input, 130 after Ctrl-C."""
    try:
        options = _parser().parse_args(arguments)
        options.command(options)
        sys.stdout.flush()
    except TokenizerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has left; Python would complain of it at exit
        return 0
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        self.exit(2, f"error: {message}; {self.prog} --help lists the options\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m tokenizer", description="Train and use BPE and source-attributed BPE tokenizers.")
    commands = parser.add_subparsers(required=True, metavar="train | encode | decode")
    _add_train(commands.add_parser("train", help="train a tokenizer on documents"))
    encode = commands.add_parser("encode", help="turn text into token ids")
    encode.set_defaults(command=_encode)
    encode.add_argument("--tokenizer", required=True, metavar="DIR", help="folder of the tokenizer")
    encode.add_argument("--allow-special", nargs="*", default=[], metavar="NAME", help="special tokens to recognise")
    encode.add_argument("--output", metavar="FILE.npy", help="write an array there instead of printing ids")
    encode.add_argument("file", nargs="?", default="-", help="UTF-8 text; - or nothing: standard input")
    decode = commands.add_parser("decode", help="turn token ids into text")
    decode.set_defaults(command=_decode)
    decode.add_argument("--tokenizer", required=True, metavar="DIR", help="folder of the tokenizer")
    decode.add_argument("--output", metavar="FILE", help="write the bytes there instead of printing them")
    decode.add_argument(
        "file", nargs="?", default="-", help="ids between spaces, or .npy; - or nothing: standard input"
    )
    return parser


def _add_train(train: argparse.ArgumentParser) -> None:
    """Add an option for every setting; the defaults are those of the configs."""
    train.set_defaults(command=_train)
    train.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="packages: or packages:NAME,NAME (installed Python code), folder, .parquet, .jsonl[.gz|.zst], text, glob",
    )
    train.add_argument("--output", required=True, metavar="DIR", help="folder to write")
    train.add_argument(
        "--workers", type=_positive, default=1, metavar="N", help="processes that count words (default 1)"
    )

    def add(name: str, help: str, **options: Any) -> None:
        config = TokenizerConfig if name in TokenizerConfig.__dataclass_fields__ else CorpusConfig
        default = getattr(config, name)
        shown = "" if default is None or isinstance(default, tuple) else f" (default {default})"
        train.add_argument(
            f"--{name.replace('_', '-')}", default=default, help=(help + shown).replace("%", "%%"), **options
        )

    add("vocab_size", "tokens in all, special ones too", type=int)
    add("priority", "what the next merge maximises: F is BPE; also F*logR, F*logR*L, ...; auto: by languages")
    add("min_repositories", "never merge pairs found in fewer repositories", type=int)
    add("min_languages", "never merge pairs found in fewer languages", type=int)
    add("pattern", "how text is split: gpt4, gpt2, llama3, qwen2, o200k, none, or a regular expression")
    add("ties", "which of equal pairs is merged")
    add("max_token_length", "longest token in bytes", type=int)
    add("special_tokens", "special tokens, at the last ids", nargs="*", metavar="NAME")
    add("num_reserved", "tokens at the very end that never occur", type=int)
    add("text_column", "column of the text in Parquet and JSON lines", metavar="NAME")
    add("repository_column", "column of the repository; repository, repo, repo_name are found", metavar="NAME")
    add("language_column", "column of the language; language, lang are found", metavar="NAME")
    add("languages", "keep only documents of these languages", nargs="*", metavar="NAME")
    add("extensions", "extensions of source files taken from folders and packages", nargs="*", metavar="NAME")
    add("max_document_bytes", "leave out longer documents", type=int)
    add("on_error", "raise, or skip what cannot be read and count it", choices=("raise", "skip"))
    add("held_out_fraction", "share of repositories kept out of training", type=float)
    add("held_out_by", "hold out by repository or document", choices=("repository", "document"))
    add("held_out_seed", "another seed holds out others", type=int)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def _train(options: argparse.Namespace) -> None:
    config, corpus = _from_options(TokenizerConfig, options), _from_options(CorpusConfig, options)
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


def _from_options(config: type, options: argparse.Namespace) -> Any:
    values = {name: value for name, value in vars(options).items() if name in config.__dataclass_fields__}
    return config(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _encode(options: argparse.Namespace) -> None:
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
        return
    import io

    import numpy as np

    from tokenizer.artefact import write_file

    buffer = io.BytesIO()
    np.save(buffer, np.array(ids, tokenizer.dtype))
    write_file(Path(options.output), buffer.getvalue())


def _decode(options: argparse.Namespace) -> None:
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


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise TokenizerError(f"file must be readable, got {error.strerror}: {file}") from None
