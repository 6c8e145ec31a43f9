"""``export`` and ``import``: tokenizers for, and from, other libraries."""

import argparse
from pathlib import Path
from typing import Literal

from tokenizer.options import OptionParser, add_option

__all__ = ["add_commands"]

WHOLE_TEXT = "(?s).+"
"""What splits nothing, for a library that takes no empty expression."""


def add_commands(parser: OptionParser) -> None:
    """Add ``export`` and ``import``."""
    export = parser.add_command("export", _export, "--tokenizer DIR --output FILE", "Write a tokenizer for others.")
    add_option(export, "--tokenizer", str, "Folder of the tokenizer.", metavar="DIR")
    add_option(export, "--output", str, "File to write.", metavar="FILE")
    kinds = (
        "What to write: tiktoken ranks without the special tokens, Hugging Face's tokenizer.json, or the vocabulary "
        "as a GGUF file for llama.cpp."
    )
    add_option(export, "--format", Literal["tiktoken", "huggingface", "gguf"], kinds, default="tiktoken")

    take = parser.add_command("import", _import, "FILE --output DIR", "Take over a tokenizer, with the same ids.")
    source = "tokenizer.json of byte-level BPE, or its folder; or a file of tiktoken ranks."
    take.add_argument("file", metavar="FILE", help=source)
    add_option(take, "--output", str, "Folder to write the tokenizer to.", metavar="DIR")
    add_option(take, "--pattern", str, "Of tiktoken ranks: a name or a regular expression.", default="gpt4")
    more = "Special tokens for the ids after the last; a store needs <eod>."
    add_option(take, "--special-tokens", tuple[str, ...], more, default=())
    dropped = "Take a tokenizer that normalises text without that: ids of text in another form then differ."
    add_option(take, "--drop-normalizer", bool, dropped, default=False)


def _export(options: argparse.Namespace) -> int:
    from tokenizer.artefact import TOKENIZER
    from tokenizer.interchange.gguf import export_gguf
    from tokenizer.interchange.tiktoken_ranks import export_tiktoken
    from tokenizer.output import check_output_file, write_file
    from tokenizer.text_files import read_file
    from tokenizer.vocabulary import Tokenizer

    check_output_file(Path(options.output))
    tokenizer = Tokenizer.load(options.tokenizer)
    match options.format:
        case "tiktoken":
            content = export_tiktoken(tokenizer)
            pattern, specials = tokenizer.pattern or WHOLE_TEXT, tokenizer.special_tokens
            rest = f"ranks; tiktoken wants the pattern {pattern!r} and special tokens {specials}"
        case "gguf":
            content, rest = export_gguf(tokenizer), f"{tokenizer.vocab_size} tokens for llama.cpp"
        case _:
            content, rest = read_file(Path(options.tokenizer) / TOKENIZER), "for tokenizers and transformers"
    write_file(Path(options.output), content)
    print(f"wrote {options.output}: {rest}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from tokenizer.artefact import check_output
    from tokenizer.splitting.patterns import resolve_pattern
    from tokenizer.vocabulary import Tokenizer

    resolve_pattern(options.pattern)
    replaces = check_output(Path(options.output))
    path, specials = Path(options.file), options.special_tokens
    if path.is_dir() or path.suffix == ".json" or _holds_json(path):
        tokenizer = Tokenizer.from_huggingface(path, special_tokens=specials, drop_normalizer=options.drop_normalizer)
    else:
        tokenizer = Tokenizer.from_tiktoken(path, pattern=options.pattern, special_tokens=specials)
    tokenizer.save(options.output)
    print(
        f"wrote {options.output}: {tokenizer.vocab_size} tokens, {tokenizer.fingerprint}"
        + ", in place of the tokenizer that was there" * replaces
    )
    return 0


def _holds_json(path: Path) -> bool:
    """Whether a file, whatever its name, begins as JSON does; ranks begin with base64."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:  # told by whoever reads it
        return False
