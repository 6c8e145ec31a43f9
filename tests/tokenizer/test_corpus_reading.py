import gzip
import json
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tokenizer.corpus import CorpusConfig, Document, is_held_out, list_shards, read_shard
from tokenizer.errors import CorpusError

ROWS = [
    {"text": "first\r\n\ufeff", "repo": "a/b", "lang": "C", "path": "x.c"},
    {"text": "東京 🎉\0", "repo": "a/c", "lang": "Python", "path": "y.py"},
    {"text": "", "repo": None, "lang": "Python", "path": "z.py"},
]
EXPECTED = [Document(row["text"], row["repo"] or "", row["lang"], row["path"]) for row in ROWS]


def read(path, skipped=None, **settings):
    config = CorpusConfig(paths=(str(path),), **settings)
    return list(chain.from_iterable(read_shard(shard, config, skipped=skipped) for shard in list_shards(config)))


def write(path, rows, **options):
    """Write rows in the format that the path's extension names."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, **options)
    else:
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        compress = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}.get(path.suffix, bytes)
        path.write_bytes(compress(data))
    return path


FORMATS = ["a.parquet", "a.jsonl", "a.jsonl.gz", "a.json.zst"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_documents(tmp_path, name):
    assert read(write(tmp_path / name, ROWS)) == EXPECTED


ARROW_TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("type", ARROW_TYPES, ids=str)
def test_every_arrow_string_type_is_read(tmp_path, type):
    texts = pa.array([row["text"].encode() for row in ROWS]).cast(pa.string()).cast(type)
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=2)
    assert [document.text for document in read(tmp_path / "a.parquet")] == [row["text"] for row in ROWS]


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_without_sources_names_rows_by_file(tmp_path, name):
    first = "a.parquet:0" if name == "a.parquet" else f"{name}:1"
    documents = read(write(tmp_path / name, [{"content": "x"}, {"content": "y"}]), text_column="content")
    assert documents[0] == Document("x", "", "", first) and len(documents) == 2


def test_an_empty_table_holds_nothing(tmp_path):
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", ROWS)
    assert read(tmp_path / "*.parquet") == EXPECTED


def test_many_rows_keep_their_order_and_numbers(tmp_path):
    rows = [{"text": f"text {n}", "n": n} for n in range(3000)]
    documents = read(write(tmp_path / "a.parquet", rows, row_group_size=700), shard_bytes=1)
    assert [(document.text, document.path) for document in documents] == [
        (f"text {n}", f"a.parquet:{n}") for n in range(3000)
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_columns_are_taken_as_named(tmp_path, name):
    path = write(tmp_path / name, [{"text": "x", "repo": "a", "owner": 7, "kind": "k", "lang": "C"}])
    assert read(path, repository_column="owner", language_column="kind")[0][1:3] == ("7", "k")
    with pytest.raises(CorpusError, match=r"text_column must be one of text, repo, .* got 'body'"):
        read(path, text_column="body")
    with pytest.raises(CorpusError, match=r"repository_column must be one of .* got 'site'"):
        read(path, repository_column="site")


@pytest.mark.parametrize("name", FORMATS)
def test_languages_and_long_documents_are_filtered_and_only_the_latter_reported(tmp_path, name):
    path = write(tmp_path / name, [*ROWS, {"text": "é" * 6, "repo": "", "lang": "Python", "path": "long.py"}])
    skipped: list[str] = []
    documents = read(path, skipped, languages=("Python",), max_document_bytes=11)
    assert [document.path for document in documents] == ["z.py"]
    assert [line.split()[0] for line in skipped] == ["y.py", "long.py"]


def broken_inputs(folder):
    """(file, number of documents that are left, what the error says, where)."""
    binary = pa.table({"text": pa.array([b"ok", b"a\xffb", None, b"end"]), "repo": ["r"] * 4})
    pq.write_table(binary, folder / "bad.parquet")
    yield "bad.parquet", 2, "text must be UTF-8, got byte 0xff at 1 in row 1"
    lines = [
        b'{"text": "ok"}',
        b'{"text": "a\xff"}',
        b'{"text": 7}',
        b"[1]",
        b'{"text": "\\ud800"}',
        b'{"x": 1}',
        b"{",
        b"9" * 5000,
        b"[" * 9999,
        b"",
    ]
    (folder / "bad.jsonl").write_bytes(b"\n".join([*lines, b'{"text": "end"}']))
    yield "bad.jsonl", 2, "line must be UTF-8, got byte 0xff at 11: line 2"
    (folder / "bad.txt").write_bytes(b"caf\xe9")
    yield "bad.txt", 0, "text must be UTF-8, got byte 0xe9 at 3"
    for name in ("cut.jsonl.gz", "cut.jsonl.zst"):
        path = write(folder / name, [{"text": f"{n * 7919 % 10007} {n}"} for n in range(5000)])
        path.write_bytes(path.read_bytes()[:-9])
        yield name, None, "file must be whole and readable, got Truncated compressed stream"
    (folder / "plain.jsonl.gz").write_bytes(b'{"text": "not compressed"}\n')
    yield "plain.jsonl.gz", 0, "file must be whole and readable"
    path = write(folder / "cut.parquet", ROWS)
    path.write_bytes(path.read_bytes()[:-20])
    yield "cut.parquet", 0, "Parquet file must be whole and readable"
    write(folder / "nocolumn.parquet", [{"body": "x"}])
    yield "nocolumn.parquet", 0, "text_column must be one of body, got 'text'"


def test_what_cannot_be_read_stops_with_one_line_or_is_left_out_and_counted(tmp_path):
    for name, num_left, message in broken_inputs(tmp_path):
        with pytest.raises(CorpusError) as caught:
            read(tmp_path / name)
        assert message in str(caught.value) and name in str(caught.value)
        assert "\n" not in str(caught.value), name
        skipped: list[str] = []
        documents = read(tmp_path / name, skipped, on_error="skip")
        assert skipped and message in skipped[0], name
        assert num_left is None or len(documents) == num_left, name


def test_every_bad_line_is_counted(tmp_path):
    list(broken_inputs(tmp_path))
    skipped: list[str] = []
    read(tmp_path / "bad.jsonl", skipped, on_error="skip")
    assert [line.split("line ")[-1].split()[0] for line in skipped] == [str(n) for n in range(2, 10)]


def test_a_file_that_has_gone_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    config = CorpusConfig(paths=(str(tmp_path / "a.txt"),))
    (shard,) = list_shards(config)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(CorpusError, match=r"file must be readable, got No such file or directory: .*a\.txt"):
        list(read_shard(shard, config))


def test_a_byte_order_mark_is_text_in_a_source_file_and_none_in_json_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfx")
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "x"}\n\n')
    assert read(tmp_path / "a.txt")[0].text == "\ufeffx"
    assert read(tmp_path / "a.jsonl")[0].text == "x"


def held_out(documents, **settings):
    config = CorpusConfig(**settings)
    return {document for document in documents if is_held_out(document, config)}


def test_about_the_share_asked_is_held_out_and_whole_repositories_are():
    documents = [Document(f"text {n}", f"r{n // 3}", "", "") for n in range(6000)]
    chosen = held_out(documents, held_out_fraction=0.1)
    assert 0.08 < len(chosen) / 6000 < 0.12
    repositories = {document.repository for document in chosen}
    assert chosen == {document for document in documents if document.repository in repositories}
    assert chosen != held_out(documents, held_out_fraction=0.1, held_out_seed=1)
    assert chosen < held_out(documents, held_out_fraction=0.2)
    assert not held_out(documents, held_out_fraction=0.0)


def test_single_documents_are_held_out_by_their_text_so_copies_stay_together():
    copies = [Document(f"text {n % 1000}", f"r{n}", "", str(n)) for n in range(2000)]
    chosen = held_out(copies, held_out_fraction=0.2, held_out_by="document")
    assert {document.text for document in chosen}.isdisjoint(document.text for document in set(copies) - chosen)
    assert 0.15 < len(chosen) / 2000 < 0.25


def test_documents_without_a_repository_are_chosen_singly():
    documents = [Document(f"text {n}", "", "", "") for n in range(1000)]
    assert 50 < len(held_out(documents, held_out_fraction=0.1)) < 150
