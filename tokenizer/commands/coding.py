"""``encode`` and ``decode``: text to token ids and back."""

import argparse
import sys
from pathlib import Path

from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, add_option

__all__ = ["add_commands"]


def add_commands(parser: OptionParser) -> None:
    """Add ``encode`` and ``decode``."""
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


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise TokenizerError(f"file must be readable, got {error.strerror}: {file}") from None
