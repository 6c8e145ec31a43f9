import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dataservice import Store, StoreError, TokenFormat, verify, write_store
from tokenizer import Tokenizer

TOKENIZER = Tokenizer(np.array([[97, 98]]), ("<eot>", "<eod>"))
SHARDS = {"one": [[1, 2, 3], [4] * 300], "two": [[5, 6]]}
READ_FILES = ("shard.json", "tokens.npy", "documents.npy", "sources.parquet")
HELD_OUT = {"one": [[7]], "two": []}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "store"
    for folder in (path, path / "held_out"):
        TOKENIZER.save(folder / "tokenizer")
    write_store(path, SHARDS, TokenFormat.of(TOKENIZER), held_out=HELD_OUT)
    return path


def files_with_content(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file() and path.stat().st_size)


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position // 8] ^= 1 << position % 8
    return bytes(changed)


def findings(store: Path) -> str:
    """What opening or verifying says, all in one text."""
    try:
        return "\n".join(line for _, line in verify(Store.open(store)))
    except StoreError as error:
        return str(error)


def read_everything(path: Path) -> None:
    store = Store.open(path, TOKENIZER.fingerprint)
    for part in (store, store.held_out):
        assert part is not None
        for shard in range(len(part.shards)):
            for read in (part.tokens, part.documents, part.sources):
                read(shard)


def test_a_whole_store_has_no_problem(store):
    assert verify(Store.open(store)) == []


@contextmanager
def altered(path: Path, data: bytes | None) -> Iterator[None]:
    """A file with other bytes, or without the file, for a while."""
    whole = path.read_bytes()
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    yield
    path.write_bytes(whole)


def test_a_flipped_bit_anywhere_is_found_named_and_not_read(store):
    random = np.random.default_rng(0)
    for path in files_with_content(store):
        for position in random.integers(0, 8 * path.stat().st_size, 3):
            with altered(path, flipped(path.read_bytes(), int(position))):
                assert str(path) in findings(store), f"bit {position} of {path}"
                if path.name in READ_FILES:
                    with pytest.raises(StoreError, match=re.escape(str(path))):
                        read_everything(store)


@pytest.mark.parametrize("fraction", [None, 0.0, 0.5, 0.99])
def test_a_file_that_is_cut_short_or_gone_is_found_and_named(store, fraction):
    for path in files_with_content(store):
        data = None if fraction is None else path.read_bytes()[: int(fraction * path.stat().st_size)]
        named = path.parent if data is None and path.name == "manifest.json" else path
        with altered(path, data):
            assert str(named) in findings(store)


def test_flipped_rows_of_the_table_are_not_read(store):
    path, digests = store / "shards.parquet", Store.open(store).shards.digests
    for position in range(0, 8 * path.stat().st_size, 997):
        with altered(path, flipped(path.read_bytes(), position)):
            try:
                opened = Store.open(store)
            except StoreError as error:
                assert "shards.parquet" in str(error)
            else:
                assert opened.shards.digests == digests
                assert str(path) in findings(store)


@pytest.mark.parametrize("name", ["tokens.npy", "sources.parquet"])
def test_tokens_of_a_damaged_shard_are_refused_at_their_first_read_only(store, name):
    path = store / "shards/two" / name
    with altered(path, flipped(path.read_bytes(), 8 * 130)):
        opened = Store.open(store)
        assert opened.tokens(0)[1] == 1
        with pytest.raises(StoreError, match=rf"shards/two/{name} must hold .* bytes with digest"):
            opened.tokens(1)
