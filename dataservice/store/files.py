"""Files that are whole or absent: digests, atomic replacement, and JSON that carries its own digest."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from dataservice.errors import StoreError

__all__ = [
    "PARTIAL_SUFFIX",
    "FileSeal",
    "canonical_json",
    "check_sealed",
    "damaged",
    "digest_bytes",
    "digest_file",
    "missing",
    "parse_sealed_json",
    "read_sealed_json",
    "replace_file",
    "seal_file",
    "sealed_json",
    "sync_directory",
    "write_sealed_json",
]

PARTIAL_SUFFIX = ".partial"


class FileSeal(NamedTuple):
    """Size in bytes and SHA-256 (hex) of a file."""

    size: int
    digest: str


def seal_file(path: Path) -> FileSeal:
    """Makes a file durable and takes its seal."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return FileSeal(path.stat().st_size, digest_file(path))


def check_sealed(path: Path, seal: FileSeal) -> None:
    """Raises StoreError that names the file unless its bytes are those that were sealed."""
    try:
        if path.stat().st_size == seal.size and digest_file(path) == seal.digest:
            return
    except FileNotFoundError as error:
        raise missing(path) from error
    raise damaged(path, f"{seal.size} bytes with digest {seal.digest[:12]}")


def digest_bytes(data: bytes) -> str:
    """SHA-256 in hex (64 characters)."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """SHA-256 of a file's bytes in hex, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_directory(path: Path) -> None:
    """Makes the renames inside a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Replaces a file in one step: a reader sees the old bytes or the new ones, also after a power cut.

    The partial name is fixed, so what a killed writer left is overwritten by the next one; callers hold the
    store's lock.
    """
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def canonical_json(value: Any) -> bytes:
    """The one spelling of a JSON value: sorted keys, two spaces, a final newline."""
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode()


def sealed_json(value: dict[str, Any]) -> bytes:
    """Canonical JSON of `value` with a field "digest" over all the others."""
    return canonical_json({**value, "digest": digest_bytes(canonical_json(value))})


def write_sealed_json(path: Path, value: dict[str, Any]) -> None:
    """Replaces a file by the sealed JSON of `value`."""
    replace_file(path, sealed_json(value))


def read_sealed_json(path: Path) -> dict[str, Any]:
    """Reads what `write_sealed_json` wrote; StoreError when a single bit of it differs."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise missing(path) from error
    try:
        return parse_sealed_json(data)
    except ValueError as error:
        raise damaged(path, str(error)) from error


def parse_sealed_json(data: bytes) -> dict[str, Any]:
    """The value of which `data` is the sealed JSON; ValueError, which says what it must be, when it is not."""
    try:
        value = json.loads(data)
        del value["digest"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("JSON with its digest") from error
    if sealed_json(value) != data:
        raise ValueError("the bytes that its digest was made of")
    return value


def damaged(path: Path, expected: str) -> StoreError:
    """The error of a file whose bytes are not those that were written."""
    return StoreError(f"{path} must hold {expected}, got damaged bytes; delete the store and prepare it again")


def missing(path: Path) -> StoreError:
    """The error of a committed file that is gone."""
    return StoreError(f"{path} must be there, got no such file; delete the store and prepare it again")
