"""Text files to token ids, a block of files in memory at a time."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.progress import Progress
from tokenizer.ragged import offsets_of

if TYPE_CHECKING:
    from tokenizer.vocabulary import Tokenizer

__all__ = ["decode_text", "encode_files", "read_file"]

BLOCK_CHARACTERS = 16_000_000


def encode_files(
    tokenizer: "Tokenizer", paths: Sequence[str | Path], allowed_special: Collection[str], progress: Progress | None
) -> tuple[np.ndarray, np.ndarray]:
    """Encode files; see ``Tokenizer.encode_files``."""
    ids, lengths = [np.empty(0, tokenizer.dtype)], [np.empty(0, np.int64)]
    done = 0
    for texts in _blocks(paths):
        if allowed_special:
            encoded = [tokenizer.encode(text, allowed_special=allowed_special) for text in texts]
            ids += [np.array(row, tokenizer.dtype) for row in encoded]
            lengths.append(np.array([len(row) for row in encoded], np.int64))
        else:
            block_ids, offsets = tokenizer.encode_batch(texts)
            ids.append(block_ids)
            lengths.append(np.diff(offsets))
        done += len(texts)
        if progress:
            progress("encode files", done, len(paths))
    return np.concatenate(ids), offsets_of(np.concatenate(lengths))


def read_file(path: Path) -> bytes:
    """Read a file; raises TokenizerError when that cannot be done."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"file must be readable, got {error.strerror}: {path}") from None


def decode_text(data: bytes, name: str | Path) -> str:
    """Decode UTF-8; raises TokenizerError, which names the place, for anything else."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"text must be UTF-8, got byte 0x{data[error.start]:02x} at {error.start} of {name}"
        ) from None


def _blocks(paths: Sequence[str | Path]) -> Iterator[list[str]]:
    texts, size = [], 0
    for path in paths:
        texts.append(decode_text(read_file(Path(path)), path))
        size += len(texts[-1])
        if size >= BLOCK_CHARACTERS:
            yield texts
            texts, size = [], 0
    if texts:
        yield texts
