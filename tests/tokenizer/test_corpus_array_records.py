import json
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

from tokenizer.corpus import CorpusConfig, list_shards, read_shard
from tokenizer.errors import CorpusError

ROWS = [{"text": f"text {n} é", "repo": f"r{n % 3}", "lang": "C", "path": f"{n}.c"} for n in range(2500)]


def write(path, records):
    writer = ArrayRecordWriter(str(path), "group_size:10")
    for record in records:
        writer.write(record)
    writer.close()
    return str(path)


def read(path, skipped=None, **settings):
    """Documents of each shard."""
    config = CorpusConfig(paths=(path,), **settings)
    return [list(read_shard(shard, config, skipped=skipped)) for shard in list_shards(config)]


@pytest.mark.parametrize("shard_bytes", [1, 8 << 20])
def test_records_are_json_objects_with_the_columns_of_tables(tmp_path, shard_bytes):
    path = write(tmp_path / "a.array_record", (json.dumps(row).encode() for row in ROWS))
    shards = read(path, shard_bytes=shard_bytes)
    assert [tuple(d) for shard in shards for d in shard] == [tuple(row.values()) for row in ROWS]
    assert [len(shard) for shard in shards] == ([1024, 1024, 452] if shard_bytes == 1 else [2500])


def test_a_remote_file_is_one_shard_with_the_same_documents_and_leaves_no_copy(tmp_path, monkeypatch):
    path = write(tmp_path / "a.array_record", (json.dumps(row).encode() for row in ROWS))
    memory = fsspec.filesystem("memory")
    memory.pipe("/records/a.array_record", Path(path).read_bytes())
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    assert read("memory://records/a.array_record", shard_bytes=1) == [[d for shard in read(path) for d in shard]]
    assert not list((tmp_path / "copies").iterdir())
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=9))
    with pytest.raises(
        CorpusError, match=r"room for \d+ bytes of memory://records/a.array_record, got 9 free in .*cop"
    ):
        read("memory://records/a.array_record", on_error="skip")
    memory.rm("/records", recursive=True)


def test_records_may_be_text(tmp_path):
    path = write(tmp_path / "a.arrayrecord", ["é".encode(), b'{"text": "x"}', b"\xff"])
    skipped = []
    (documents,) = read(path, skipped, records="text", on_error="skip")
    assert [(d.text, d.path) for d in documents] == [("é", "a.arrayrecord:0"), ('{"text": "x"}', "a.arrayrecord:1")]
    (line,) = skipped
    assert "got byte 0xff at 0: record 2 of " in line


def test_a_bad_record_is_named(tmp_path):
    path = write(tmp_path / "a.array_record", [b'{"text": "x"}', b"[]"])
    with pytest.raises(CorpusError, match=r"must be a JSON object, got list: record 1 of .*a.array_record"):
        read(path)


def test_an_empty_file_holds_no_document(tmp_path):
    path = write(tmp_path / "a.array_record", [])
    (tmp_path / "b.txt").write_text("x")
    config = CorpusConfig(paths=(path, str(tmp_path / "b.txt")))
    assert [d.text for shard in list_shards(config) for d in read_shard(shard, config)] == ["x"]


@pytest.mark.parametrize("damage", ["truncate", "flip"])
def test_a_damaged_file_is_said_in_one_line_or_counted(tmp_path, damage):
    path = tmp_path / "a.array_record"
    write(path, (json.dumps(row).encode() for row in ROWS))
    data = bytearray(path.read_bytes())
    if damage == "truncate":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 4] ^= 255
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=r"must be whole and readable, got .*a.array_record") as caught:
        read(str(path))
    assert "\n" not in str(caught.value)
    skipped = []
    read(str(path), skipped, on_error="skip")
    assert len(skipped) >= 1
