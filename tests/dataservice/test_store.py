import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataservice import Store, StoreError, TokenFormat, write_store
from dataservice.errors import IngestError, WaitCancelledError
from dataservice.store.lock import WriterLock, has_writer
from dataservice.store.manifest import Manifest
from dataservice.store.record import length_powers
from dataservice.store.shard import SOURCE_SCHEMA, ShardWriter
from dataservice.store.table import ShardTable
from dataservice.store.writer import StoreWriter

EOD = 299
FORMAT = TokenFormat("a" * 64, 300, EOD)
SHARDS = {"one": [[1, 2, 3], [], [4] * 9], "two": [], "three": [[5, 6]]}
HELD_OUT = {"one": [], "two": [[7]], "three": []}


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """Durability cannot be tested here, and takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return write_store(tmp_path / "store", SHARDS, FORMAT, held_out=HELD_OUT)


documents = st.lists(st.lists(st.integers(0, EOD - 1), max_size=20), max_size=8)


@settings(max_examples=20, deadline=None)
@given(shards=st.lists(documents, max_size=3))
def test_documents_come_back_between_ends_and_the_table_counts_them(tmp_path_factory, shards):
    path = tmp_path_factory.mktemp("store")
    names = [f"shard-{index}" for index in range(len(shards))]
    store = write_store(path / "s", dict(zip(names, shards, strict=True)), FORMAT)
    for index, shard in enumerate(shards):
        tokens, positions = store.tokens(index), store.documents(index)
        kept = [document for document in shard if document]
        expected = [EOD] + [token for document in kept for token in [*document, EOD]]
        assert tokens.tolist() == expected and tokens.dtype == np.uint16
        assert [tokens[a + 1 : b].tolist() for a, b in pairwise(positions)] == kept
        lengths = [len(document) + 1 for document in kept]
        for power in range(8):
            assert store.shards.digits[index, power] == sum(n >> power & 1 for n in lengths)
            assert store.shards.multiples[index, power] == sum(n >> power for n in lengths)
        assert store.shards.tokens[index] == len(expected)
        assert store.shards.empty[index] == len(shard) - len(kept)
        assert store.sources(index).num_rows == len(kept)


def test_pieces_appended_to_a_shard_are_the_file_that_numpy_saves(tmp_path):
    with ShardWriter(tmp_path, "x", FORMAT) as shard:
        for piece in ([1, 2], [3]):
            shard.append(np.array(piece), np.array([0, len(piece)]), (["r"], ["l"], ["p"]), len(piece))
        shard.finish("input")
    np.save(tmp_path / "expected.npy", np.array([EOD, 1, 2, EOD, 3, EOD], np.uint16))
    assert (tmp_path / "shards/x/tokens.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()


def test_a_file_name_that_is_no_unicode_is_spelt_out(tmp_path):
    with ShardWriter(tmp_path, "x", FORMAT) as shard:
        shard.append(np.array([1]), np.array([0, 1]), (["r"], ["l"], ["a\udcff.py"]), 1)
        shard.finish("input")
    assert pq.read_table(tmp_path / "shards/x/sources.parquet")["path"].to_pylist() == ["a\\udcff.py"]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(300, np.uint16), (1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)])
def test_tokens_take_two_bytes_where_every_id_fits(tmp_path, vocab_size, dtype):
    tokens_of = TokenFormat("a" * 64, vocab_size, vocab_size - 1)
    store = write_store(tmp_path / "s", {"x": [[0, vocab_size - 2]]}, tokens_of)
    assert store.tokens(0).dtype == dtype == store.dtype
    assert store.tokens(0).tolist() == [vocab_size - 1, 0, vocab_size - 2, vocab_size - 1]


@given(st.lists(st.integers(1, 1 << 40), max_size=10))
def test_length_powers_are_those_of_integers(lengths):
    digits, multiples = length_powers(np.array(lengths, np.int64))
    for power in range(48):
        assert digits[power] == sum(n >> power & 1 for n in lengths)
        assert multiples[power] == sum(n >> power for n in lengths)


def test_a_store_written_in_parts_equals_one_written_at_once(store, tmp_path):
    first = dict(list(SHARDS.items())[:1])
    grown = write_store(tmp_path / "grown", first, FORMAT, held_out=first and {"one": []}, planned_shards=3)
    assert not grown.is_complete and grown.num_planned_shards == 3
    assert grown.prefix_digest(1) == store.prefix_digest(1) != store.prefix_digest(2)
    write_store(tmp_path / "grown", SHARDS, FORMAT, held_out=HELD_OUT)
    grown.refresh()
    assert grown.is_complete and grown.prefix_digest(3) == store.prefix_digest(3)
    assert grown.held_out is not None and len(grown.held_out.shards) == 3
    assert folder_bytes(grown.path) == folder_bytes(store.path)


def test_the_same_rows_under_another_tokenizer_have_another_digest(store, tmp_path):
    other = write_store(tmp_path / "other", SHARDS, TokenFormat("b" * 64, 300, EOD))
    assert other.shards.digests == store.shards.digests
    assert other.prefix_digest(3) != store.prefix_digest(3)


def test_the_identity_of_data_is_that_of_its_tokens_and_where_documents_begin(tmp_path, monkeypatch):
    """Not of the names of shards, of sources, or of how a library writes its files."""

    def digest(name: str, documents: list[list[int]], path: str = "p") -> str:
        lengths = np.cumsum([0, *map(len, documents)])
        ids = np.array([token for document in documents for token in document], np.uint16)
        table = ShardTable.from_records([], root=FORMAT.root)
        with ShardWriter(tmp_path, name, FORMAT) as shard:
            shard.append(ids, lengths, [[path] * len(documents)] * 3, len(ids))
            return table.extend([shard.finish("input")]).prefix_digest(1)

    first = digest("a", [[1, 2], [3]])
    assert digest("b", [[1, 2], [3]], path="elsewhere") == first
    monkeypatch.setattr("dataservice.store.shard.SOURCE_SCHEMA", SOURCE_SCHEMA.with_metadata({"writer": "a later one"}))
    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", np.lib.format.write_array_header_2_0)
    assert digest("c", [[1, 2], [3]]) == first
    for file in ("sources.parquet", "tokens.npy", "documents.npy"):
        assert len({(tmp_path / "shards" / name / file).read_bytes() for name in "ac"}) == 2
    # The same tokens, of which one that ends documents is part of a document.
    others = [digest("d", [[1, 2], [4]]), digest("e", [[1, 2, EOD, 3]])]
    tokens = [(tmp_path / "shards" / name / "tokens.npy").read_bytes() for name in "ce"]
    assert tokens[0] == tokens[1] and len({first, *others}) == 3


def test_another_tokenizer_is_refused_by_both_fingerprints(store):
    with pytest.raises(StoreError, match=f"(?s){'c' * 64}.*{'a' * 64}"):
        Store.open(store.path, "c" * 64)


def test_no_store_is_said_in_one_line(tmp_path):
    with pytest.raises(StoreError, match=r"manifest.json, got .*prepare PATH") as caught:
        Store.open(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_writer_with_other_settings_is_refused(tmp_path):
    def writer(fraction: float) -> StoreWriter:
        return StoreWriter(path=tmp_path, tokens_of=FORMAT, planned_shards=1, settings={"fraction": fraction})

    writer(0.1).commit([])
    with pytest.raises(StoreError, match=r"fraction of store .* must be 0.1 .* got 0.2"):
        writer(0.2)


def test_a_table_that_is_ahead_of_the_manifest_shows_only_what_is_committed(store):
    manifest = (store.path / "manifest.json").read_bytes()
    more = {**SHARDS, "four": [[8]]}
    write_store(store.path, more, FORMAT, held_out={**HELD_OUT, "four": []})
    (store.path / "manifest.json").write_bytes(manifest)  # as if killed before the last rename
    reopened = Store.open(store.path)
    assert reopened.shards.names == tuple(SHARDS) and reopened.prefix_digest(3) == store.prefix_digest(3)
    finished = write_store(store.path, more, FORMAT, held_out={**HELD_OUT, "four": []})
    assert finished.shards.names == tuple(more)


def test_waiting_for_a_store_that_nobody_writes_says_so(tmp_path):
    store = write_store(tmp_path / "s", {"one": [[1]]}, FORMAT, planned_shards=2)
    store.wait_for_shards(1)
    with pytest.raises(IngestError, match="2 shards or be in preparation, got 1"):
        store.wait_for_shards(2)
    with WriterLock(store.path), pytest.raises(IngestError, match=r"2 shards in 0.01 s"):
        store.wait_for_shards(2, timeout=0.01)


def test_a_wait_that_is_cancelled_ends(tmp_path):
    store = write_store(tmp_path / "s", {"one": [[1]]}, FORMAT, planned_shards=2)
    store.writer_fault = lambda: None
    store.wait_for_shards(1, is_cancelled=lambda: True)
    with pytest.raises(WaitCancelledError, match="2 shards, got nobody who waits"):
        store.wait_for_shards(2, is_cancelled=lambda: True)


def test_two_threads_may_refresh_at_once(tmp_path, monkeypatch):
    """One has read the last manifest but one when the other begins."""
    names = ("one", "two", "three")
    store = write_store(tmp_path / "s", {"one": [[1]]}, FORMAT, planned_shards=3)
    write_store(store.path, {name: [[1]] for name in names[:2]}, FORMAT, planned_shards=3)
    read, other = Manifest.read, threading.Thread(target=store.refresh)

    def read_slowly(path: Path) -> Manifest:
        manifest = read(path)
        monkeypatch.setattr(Manifest, "read", read)
        write_store(store.path, {name: [[1]] for name in names}, FORMAT)
        other.start()
        other.join(0.2)  # it ends only where nothing makes it wait
        return manifest

    monkeypatch.setattr(Manifest, "read", read_slowly)
    store.refresh()
    other.join()
    assert store.shards.names == names and store.is_complete


def test_more_shards_than_open_files_can_be_mapped_at_once(tmp_path):
    write_store(tmp_path / "s", {f"shard-{index}": [[index]] for index in range(80)}, FORMAT)
    code = (
        "import resource, sys; from dataservice import Store\n"
        "store = Store.open(sys.argv[1])\n"
        "store.tokens(0), store.documents(0)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "maps = [(store.tokens(shard), store.documents(shard)) for shard in range(80)]\n"
        "print([tokens[1] for tokens, _ in maps] == list(range(80)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", code, str(tmp_path / "s")]
    assert subprocess.run(arguments, env=environment, check=True, capture_output=True).stdout == b"True\n"


def test_the_lock_admits_one_writer_and_dies_with_its_process(tmp_path):
    code = (
        "import sys; from pathlib import Path; from dataservice.store.lock import WriterLock\n"
        "with WriterLock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        assert has_writer(tmp_path)
        with pytest.raises(StoreError, match="one writer at a time"), WriterLock(tmp_path):
            pass
        process.kill()
    assert not has_writer(tmp_path)
    with WriterLock(tmp_path):
        assert has_writer(tmp_path)


def test_a_full_disk_leaves_nothing_of_a_shard(tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dataservice.store.shard.NpyWriter.append", fail)
    with pytest.raises(OSError, match="No space"), ShardWriter(tmp_path, "x", FORMAT) as shard:
        shard.append(np.array([1]), np.array([0, 1]), (["r"], ["l"], ["p"]), 1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_failed_commit_leaves_the_last_one(store, monkeypatch):
    before = folder_bytes(store.path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dataservice.store.files.os.fsync", fail)
    writer = StoreWriter(path=store.path, tokens_of=FORMAT, planned_shards=3, settings={}, held_out=True)
    with pytest.raises(OSError, match="No space"):
        writer.commit([])
    monkeypatch.undo()
    assert folder_bytes(store.path) == before


def test_a_manifest_of_another_format_is_refused(store):
    from dataservice.store.files import sealed_json

    path = store.path / "manifest.json"
    fields = json.loads(path.read_bytes())
    del fields["digest"]
    path.write_bytes(sealed_json({**fields, "format": 1}))
    with pytest.raises(StoreError, match="must be 2, got 1"):
        Store.open(store.path)


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
