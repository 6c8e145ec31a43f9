import gzip
import io
import json
import sys
import zipfile
from itertools import chain

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tokenizer.corpus import CorpusConfig, list_shards, read_shard
from tokenizer.errors import CorpusError, SourceError

ROWS = [{"text": f"text {n} é", "repo": f"r{n % 3}", "lang": "C", "path": f"{n}.c"} for n in range(40)]


def documents(config):
    return list(chain.from_iterable(read_shard(shard, config) for shard in list_shards(config)))


def read(*paths, **settings):
    return documents(CorpusConfig(paths=paths, **settings))


def encode(name, rows):
    """The bytes of a file of rows in the format that its name says."""
    if name.endswith(".parquet"):
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=7)
        return sink.getvalue()
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    compress = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}.get(name.rpartition(".")[2], bytes)
    return compress(data)


FORMATS = ["a.parquet", "a.jsonl", "a.jsonl.gz", "a.json.zst"]


@pytest.fixture
def memory():
    """The file system behind memory://, empty before and after."""
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


@pytest.mark.parametrize("name", FORMATS)
def test_remote_tables_give_the_documents_of_local_ones(memory, tmp_path, name):
    data = encode(name, ROWS)
    memory.pipe(f"/bucket/{name}", data)
    (tmp_path / name).write_bytes(data)
    local = read(str(tmp_path / name), shard_bytes=300)
    assert read(f"memory://bucket/{name}", shard_bytes=300) == local and len(local) == 40
    assert read((tmp_path / name).as_uri(), shard_bytes=300) == local


def test_a_remote_folder_is_read_by_the_rules_of_a_local_one(memory, tmp_path):
    files = {
        "r1/src/a.py": b"a = 1\n",
        "r2/b.c": b"int b;\n",
        "loose.py": b"c = 2\n",
        "r1/.git/hidden.py": b"hidden\n",
        "r1/__pycache__/d.py": b"cached\n",
        "r2/picture.png": b"\x89PNG",
        "r2/data.json": b"{}",
        "tables/rows.jsonl": encode("rows.jsonl", ROWS),
    }
    for path, data in files.items():
        memory.pipe(f"/bucket/code/{path}", data)
        (tmp_path / "code" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / path).write_bytes(data)
    remote = CorpusConfig(paths=("memory://bucket/code",), shard_bytes=10)
    local = CorpusConfig(paths=(str(tmp_path / "code"),), shard_bytes=10)
    assert documents(remote) == documents(local) and len(documents(remote)) == 43
    assert [shard.name for shard in list_shards(remote)] == [shard.name for shard in list_shards(local)]


def test_globs_list_files_in_the_order_of_their_names(memory):
    for name in ("c", "a", "b"):
        memory.pipe(f"/bucket/{name}/part.jsonl", encode("part.jsonl", [{"text": name}]))
    memory.pipe("/bucket/d/part.txt", b"none of these")
    assert [document.text for document in read("memory://bucket/*/part.jsonl")] == ["a", "b", "c"]
    names = [shard.name for shard in list_shards(CorpusConfig(paths=("memory://bucket/[ab]/*.jsonl",)))]
    assert len(set(names)) == 2 and all(name.replace("-", "").isalnum() for name in names)


def test_members_of_archives_are_read_where_they_lie(memory):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("deep/b.jsonl", "deep/a.jsonl"):
            archive.writestr(name, encode(name, [{"text": name}]))
        archive.writestr("deep/c.py", "c = 3\n")
    memory.pipe("/bucket/all.zip", sink.getvalue())
    assert [d.text for d in read("zip://deep/*.jsonl::memory://bucket/all.zip")] == ["deep/a.jsonl", "deep/b.jsonl"]
    (single,) = read("zip://deep/c.py::memory://bucket/all.zip")
    assert single.text == "c = 3\n" and single.language == "py" and single.repository == "deep"
    assert len(read("zip://::memory://bucket/all.zip")) == 3


def test_a_single_remote_file_is_a_document(memory):
    memory.pipe("/bucket/book/chapter.txt", "Once é".encode())
    (document,) = read("memory://bucket/book/chapter.txt")
    assert document == ("Once é", "book", "txt", "book/chapter.txt")


def test_identity_follows_the_content_of_a_remote_file(memory):
    def identity():
        return list_shards(CorpusConfig(paths=("memory://bucket/a.jsonl",)))[0].identity

    memory.pipe("/bucket/a.jsonl", b'{"text": "a"}\n')
    first = identity()
    assert identity() == first
    memory.pipe("/bucket/a.jsonl", b'{"text": "b"}\n')
    assert identity() != first


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl.gz", "a.py"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_remote_file_that_changes_after_it_was_listed_is_no_input(memory, name, on_error):
    memory.pipe(f"/bucket/{name}", encode(name, ROWS))
    config = CorpusConfig(paths=(f"memory://bucket/{name}",), on_error=on_error)
    (shard,) = list_shards(config)
    memory.pipe(f"/bucket/{name}", encode(name, ROWS))
    with pytest.raises(SourceError, match=rf"must stay as it is while it is read.*memory://bucket/{name}"):
        list(read_shard(shard, config))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_remote_file_that_vanishes_after_it_was_listed_is_said(memory, on_error):
    memory.pipe("/bucket/a.jsonl", encode("a.jsonl", ROWS))
    config = CorpusConfig(paths=("memory://bucket/a.jsonl",), on_error=on_error)
    (shard,) = list_shards(config)
    memory.rm("/bucket/a.jsonl")
    with pytest.raises(SourceError, match=r"must be readable, got FileNotFoundError.*memory://bucket/a.jsonl"):
        list(read_shard(shard, config))


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.py"])
def test_a_local_file_that_changes_while_it_is_read_is_no_input(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(encode(name, ROWS))
    config = CorpusConfig(paths=(str(path),), on_error="skip")
    (shard,) = list_shards(config)
    reader = read_shard(shard, config)
    next(reader)
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(SourceError, match="must stay as it is while it is read, got other content"):
        list(reader)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("memory://bucket/none.jsonl", "must be readable, got FileNotFoundError"),
        ("memory://bucket/*.jsonl", "which is empty"),
        ("nosuch://bucket/a.jsonl", "must be URLs that fsspec can open"),
        ("memory://bucket/a.array_record", "ArrayRecord file must be whole and readable"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(memory, path, message):
    memory.pipe("/bucket/a.array_record", b"x")
    with pytest.raises(CorpusError, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value) and "bucket" in str(caught.value)


def test_a_file_system_that_is_not_installed_names_the_extra(monkeypatch):
    def refuse(url):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(CorpusError, match=r"must be installed, got Install s3fs.*pip install 'dyadlm\[remote\]'"):
        read("s3://bucket/a.jsonl")


@pytest.mark.parametrize(("scheme", "package"), [("s3", "s3fs"), ("gs", "gcsfs"), ("hf", "huggingface_hub")])
def test_the_package_that_a_file_system_needs_is_named(monkeypatch, scheme, package):
    monkeypatch.setitem(sys.modules, package, None)
    # What was imported before is kept there.
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    with pytest.raises(CorpusError, match=rf"must be installed, got .*{package}.*pip install 'dyadlm\[remote\]'"):
        read(f"{scheme}://bucket/a.jsonl")


def test_only_the_repositories_asked_for_are_kept(memory):
    memory.pipe("/bucket/a.jsonl", encode("a.jsonl", ROWS))
    found = read("memory://bucket/a.jsonl", repositories=("r1", "r2"))
    assert [d.path for d in found] == [row["path"] for row in ROWS if row["repo"] != "r0"]


def test_footers_read_at_once_keep_the_order_of_names(memory):
    for number in range(40):
        rows = [{"text": f"{number} {row}"} for row in range(3)]
        memory.pipe(f"/bucket/{number:02}.parquet", encode("a.parquet", rows))
    texts = [document.text for document in read("memory://bucket/*.parquet")]
    assert texts == [f"{number} {row}" for number in range(40) for row in range(3)]
