"""The folder of a tokenizer: written all or nothing, and checked when it is opened.

``tokenizer.json`` alone says what every text becomes, for us and for Hugging Face; ``merges.parquet`` keeps what
training knew of each merge, ``provenance.json`` how the tokenizer was made, with its fingerprint.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tokenizer.errors import TokenizerError
from tokenizer.interchange.huggingface import to_tokenizer_config, to_tokenizer_json
from tokenizer.interchange.huggingface_import import from_tokenizer_json, read_json
from tokenizer.merging.trainer import Merges
from tokenizer.vocabulary import Tokenizer

__all__ = ["check_output", "load_tokenizer", "save_tokenizer", "write_file"]

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
MERGES = "merges.parquet"
PROVENANCE = "provenance.json"
COUNTED = ("frequency", "repositories", "languages")
"""Columns of merges.parquet that tell of a merge when it was made; null: not known."""


def check_output(path: Path) -> None:
    """Raise TokenizerError unless a tokenizer may be written to ``path``: nothing there, or a tokenizer to replace."""
    if path.is_dir() and (not any(path.iterdir()) or (path / PROVENANCE).exists()):
        return
    if path.exists():
        raise TokenizerError(f"output must be a new folder or that of a tokenizer, got {path}; choose another place")


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write the folder; raises TokenizerError where something else than a tokenizer stands."""
    check_output(path)
    with _new_folder(path) as folder:
        _write(folder / TOKENIZER, _json(to_tokenizer_json(tokenizer)))
        _write(folder / CONFIG, _json(to_tokenizer_config(tokenizer)))
        _write(folder / MERGES, _merges_parquet(tokenizer))
        _write(folder / PROVENANCE, _json({**tokenizer.provenance, "fingerprint": tokenizer.fingerprint}))


def load_tokenizer(path: Path) -> Tokenizer:
    """Open the folder; raises TokenizerError when a file is missing, faulty, or not what training wrote."""
    if not (path / TOKENIZER).is_file():
        raise TokenizerError(
            f"tokenizer must be a folder with {TOKENIZER}, got {path}; python -m tokenizer train makes one"
        )
    pairs, specials, pattern, ids = from_tokenizer_json(read_json(path / TOKENIZER), path / TOKENIZER)
    provenance = read_json(path / PROVENANCE)
    fingerprint = provenance.pop("fingerprint", None)
    merges = _read_merges(path / MERGES, pairs, ids, provenance.get("steps", 0))
    tokenizer = Tokenizer(pairs, specials, pattern, ids=ids, merges=merges, provenance=provenance)
    if tokenizer.fingerprint != fingerprint:
        raise TokenizerError(
            f"fingerprint must be that of {PROVENANCE}, {fingerprint}, got {tokenizer.fingerprint}; "
            f"{path / TOKENIZER} was altered: save or train the tokenizer again"
        )
    return tokenizer


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder beside ``path`` that takes its place at the end; on any error, nothing has happened."""
    folder = path.parent / f".{path.name}.{uuid4().hex}"
    try:
        folder.mkdir(parents=True)
        yield folder
        _sync(folder)
        _replace(folder, path)
        _sync(path.parent)
    except OSError as error:
        raise TokenizerError(f"output must be writable, got {error.strerror}: {path}; choose another place") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replace(folder: Path, path: Path) -> None:
    if not path.exists() or not any(path.iterdir()):
        folder.rename(path)
        return
    old = path.parent / f"{folder.name}.old"
    path.rename(old)
    folder.rename(path)
    shutil.rmtree(old)


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: beside its place, then renamed."""
    beside = path.parent / f".{path.name}.{uuid4().hex}"
    try:
        _write(beside, data)
        beside.replace(path)
    except OSError as error:
        raise TokenizerError(f"output must be writable, got {error.strerror}: {path}; choose another place") from None
    finally:
        beside.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def _merges_parquet(tokenizer: Tokenizer) -> bytes:
    num = len(tokenizer.pairs)
    columns: dict[str, Any] = {
        "id": tokenizer.ids[256 : 256 + num],
        "left": tokenizer.ids[tokenizer.pairs[:, 0]],
        "right": tokenizer.ids[tokenizer.pairs[:, 1]],
        "bytes": pa.array([tokenizer.token_bytes[number] for number in tokenizer.ids[256 : 256 + num]], pa.binary()),
    }
    for name in COUNTED:
        values = np.zeros(num, np.int64) if tokenizer.merges is None else getattr(tokenizer.merges, name)
        columns[name] = pa.array(values, mask=values == 0)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def _read_merges(path: Path, pairs: np.ndarray, ids: np.ndarray, steps: int) -> Merges | None:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise TokenizerError(f"{path.name} must be a Parquet file, got {reason}: {path}") from None
    columns = {name: table[name].to_numpy() for name in ("left", "right") if name in table.column_names}
    if len(columns) < 2 or not np.array_equal(np.stack([columns["left"], columns["right"]], 1), ids[pairs]):
        raise TokenizerError(f"{path.name} must hold the merges of {TOKENIZER}, got others: {path}")
    if len(pairs) and table["frequency"].null_count == len(pairs):
        return None
    counted = {name: table[name].fill_null(0).to_numpy() for name in COUNTED}
    return Merges(pairs=pairs, steps=steps, **counted)
