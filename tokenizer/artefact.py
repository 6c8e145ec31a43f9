"""The folder of a tokenizer: written all or nothing, and checked when it is opened.

``tokenizer.json`` alone says what every text becomes, for us and for Hugging Face; ``merges.parquet`` keeps what
training knew of each merge, ``provenance.json`` how the tokenizer was made, with its fingerprint.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tokenizer.errors import TokenizerError
from tokenizer.interchange.huggingface import to_tokenizer_config, to_tokenizer_json
from tokenizer.interchange.huggingface_import import from_tokenizer_json, parse_json
from tokenizer.merging.trainer import Merges
from tokenizer.output import check_owner, check_writable, write_synced
from tokenizer.output_folder import new_folder, read_folder
from tokenizer.ownership import is_tokenizer
from tokenizer.vocabulary import Tokenizer

__all__ = ["check_output", "load_tokenizer", "place_tokenizer", "save_tokenizer", "write_files"]

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
MERGES = "merges.parquet"
PROVENANCE = "provenance.json"
FILES = (TOKENIZER, CONFIG, MERGES, PROVENANCE)
COUNTED = ("frequency", "repositories", "languages")
"""Columns of merges.parquet that tell of a merge when it was made; null: not known."""


def check_output(path: Path) -> bool:
    """Return whether a tokenizer stands at ``path``, which a new one would replace.

    Raises TokenizerError when anything else stands there, even beside a tokenizer, when the place is part of a run, a
    store, another tokenizer or a model, or when nothing can be written.
    """
    check_writable(path)
    check_owner(path)
    _refuse_others(path)
    return is_tokenizer(path)


def _refuse_others(path: Path) -> None:
    """Raise TokenizerError where a folder would be replaced, and with it what no tokenizer has."""
    names = sorted(one.name for one in path.iterdir()) if path.is_dir() else []
    if path.exists() and not is_tokenizer(path) and not (path.is_dir() and not names):
        raise TokenizerError(f"output must be a new folder or that of a tokenizer, got {path}; choose another place")
    if others := [name for name in names if name not in FILES]:
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        raise TokenizerError(
            f"output must be a new folder or that of a tokenizer and nothing else, got {path} with {others[0]}{more}; "
            "choose another place"
        )


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write the folder; raises TokenizerError where ``check_output`` does."""
    check_output(path)
    place_tokenizer(tokenizer, path)


def place_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write the folder as a part of a run or of a store, by whoever makes that; nothing but a tokenizer is replaced."""
    _refuse_others(path)
    with new_folder(path) as folder:
        write_files(tokenizer, folder)


def write_files(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the files into a folder that is being made, perhaps beside others."""
    write_synced(folder / TOKENIZER, _json(to_tokenizer_json(tokenizer)))
    write_synced(folder / CONFIG, _json(to_tokenizer_config(tokenizer)))
    write_synced(folder / MERGES, _merges_parquet(tokenizer))
    write_synced(folder / PROVENANCE, _json({**tokenizer.provenance, "fingerprint": tokenizer.fingerprint}))


def load_tokenizer(path: Path) -> Tokenizer:
    """Open the folder; raises TokenizerError when a file is missing, faulty, or not what training wrote."""
    files = _read_files(path)
    content = parse_json(files[TOKENIZER], path / TOKENIZER)
    pairs, specials, pattern, ids = from_tokenizer_json(content, path / TOKENIZER)
    provenance = parse_json(files[PROVENANCE], path / PROVENANCE)
    fingerprint = provenance.pop("fingerprint", None)
    merges = _read_merges(files[MERGES], path / MERGES, pairs, ids, provenance.get("steps", 0))
    tokenizer = Tokenizer(pairs, specials, pattern, ids=ids, merges=merges, provenance=provenance)
    if tokenizer.fingerprint != fingerprint:
        raise TokenizerError(
            f"fingerprint must be that of {PROVENANCE}, {fingerprint}, got {tokenizer.fingerprint}; "
            f"{path / TOKENIZER} was altered: save or train the tokenizer again"
        )
    return tokenizer


def _read_files(path: Path) -> dict[str, bytes]:
    try:
        return read_folder(path, (TOKENIZER, PROVENANCE, MERGES))
    except OSError as error:
        missing = Path(str(error.filename)).name
        if isinstance(error, FileNotFoundError) and missing in (PROVENANCE, MERGES):
            raise TokenizerError(f"tokenizer must have a file {missing}, got none: {path}; copy it whole") from None
        reason = "" if isinstance(error, FileNotFoundError | NotADirectoryError) else f" ({error.strerror})"
        raise TokenizerError(
            f"tokenizer must be a folder with {TOKENIZER}, got {path}{reason}; python -m tokenizer train makes one"
        ) from None


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


def _read_merges(data: bytes, path: Path, pairs: np.ndarray, ids: np.ndarray, steps: int) -> Merges | None:
    try:
        # Without threads: one that still held the bytes when the interpreter ends would abort the process.
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            table = file.read(use_threads=False)
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
