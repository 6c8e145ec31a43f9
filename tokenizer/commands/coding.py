"""``encode`` and ``decode``: text to token ids and back."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, add_option

if TYPE_CHECKING:
    import numpy as np

    from tokenizer.vocabulary import Tokenizer

__all__ = ["add_commands"]

STANDARD_INPUT = "/dev/stdin"


def add_commands(parser: OptionParser) -> None:
    """Add ``encode`` and ``decode``."""
    encode = parser.add_command("encode", _encode, "--tokenizer DIR [FILE ...]", "Turn text into token ids.")
    add_option(encode, "--tokenizer", str, "Folder of the tokenizer.", metavar="DIR")
    files = "UTF-8 text, a document a file; - or nothing: standard input."
    encode.add_argument("files", nargs="*", default=["-"], metavar="FILE", help=files)
    special = "Special tokens to recognise in the text."
    add_option(encode, "--allow-special", tuple[str, ...], special, default=())
    output = (
        "File to write: .npz holds the arrays ids, of all files, and offsets, so that file i has "
        "ids[offsets[i] : offsets[i + 1]]; any other name is the .npy array of one file; null: the ids of one file "
        "between spaces on standard output."
    )
    add_option(encode, "--output", str | None, output, default=None, metavar="FILE")

    decode = parser.add_command("decode", _decode, "--tokenizer DIR [FILE]", "Turn token ids into text.")
    add_option(decode, "--tokenizer", str, "Folder of the tokenizer.", metavar="DIR")
    ids = "Ids between spaces, or an .npy array; - or nothing: standard input."
    decode.add_argument("file", nargs="?", default="-", metavar="FILE", help=ids)
    output = "File to write; null: standard output."
    add_option(decode, "--output", str | None, output, default=None, metavar="FILE")


def _encode(options: argparse.Namespace) -> int:
    from tokenizer.output import check_output_file
    from tokenizer.vocabulary import Tokenizer

    is_archive = options.output is not None and options.output.endswith(".npz")
    if len(options.files) > 1 and not is_archive:
        raise TokenizerError(f"output must end in .npz for several files, got {options.output or 'nothing'}")
    if options.output is not None:
        check_output_file(Path(options.output), options.files)
    tokenizer = Tokenizer.load(options.tokenizer)
    if is_archive and options.files != ["-"]:
        return _encode_files(tokenizer, options)
    from tokenizer.text_files import decode_text

    text = decode_text(_read(options.files[0]), options.files[0])
    ids = tokenizer.encode(text, allowed_special=options.allow_special)
    if options.output is None:
        print(*ids)
        return 0
    import numpy as np

    array = np.array(ids, tokenizer.dtype)
    if is_archive:
        _write_arrays(options.output, np.savez, ids=array, offsets=np.array([0, len(ids)]))
    else:
        _write_arrays(options.output, np.save, array)
    print(f"wrote {options.output}: {len(ids):,} token ids of {len(text):,} characters")
    return 0


def _encode_files(tokenizer: "Tokenizer", options: argparse.Namespace) -> int:
    import numpy as np

    from tokenizer.progress import show_progress

    with show_progress() as progress:
        special = options.allow_special
        files = [STANDARD_INPUT if file == "-" else file for file in options.files]
        ids, offsets = tokenizer.encode_files(files, allowed_special=special, progress=progress)
    _write_arrays(options.output, np.savez, ids=ids, offsets=offsets)
    print(f"wrote {options.output}: {len(ids):,} token ids of {len(options.files):,} files")
    return 0


def _write_arrays(output: str, save: Callable[..., None], *arrays: "np.ndarray", **named: "np.ndarray") -> None:
    import io

    from tokenizer.output import write_file

    buffer = io.BytesIO()
    save(buffer, *arrays, **named)
    write_file(Path(output), buffer.getvalue())


def _decode(options: argparse.Namespace) -> int:
    from tokenizer.output import check_output_file, write_file
    from tokenizer.vocabulary import Tokenizer

    if options.output is not None:
        check_output_file(Path(options.output), [options.file])
    tokenizer = Tokenizer.load(options.tokenizer)
    ids = _parse_ids(_read(options.file))
    text = tokenizer.decode_bytes(ids)
    if options.output is None:
        sys.stdout.buffer.write(text)
    else:
        write_file(Path(options.output), text)
        print(f"wrote {options.output}: {len(text):,} bytes of {len(ids):,} token ids")
    return 0


def _parse_ids(data: bytes) -> "np.ndarray | list[int]":
    import io

    import numpy as np

    try:
        if data.startswith(b"\x93NUMPY"):
            return np.load(io.BytesIO(data))
        return [int(word) for word in data.split()]
    except (ValueError, EOFError) as error:
        raise TokenizerError(f"ids must be integers between spaces or an .npy array, got {error}") from None


def _read(file: str) -> bytes:
    from tokenizer.text_files import read_file

    if file != "-":
        return read_file(Path(file))
    if sys.stdin is None:
        raise TokenizerError("standard input must be open, got a closed one; name a FILE")
    return sys.stdin.buffer.read()
