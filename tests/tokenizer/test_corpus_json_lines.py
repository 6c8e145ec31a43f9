"""Files of JSON lines that are read in parts."""

import gzip
import json
from dataclasses import replace
from itertools import chain
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.corpus import CorpusConfig, list_shards, read_shard
from tokenizer.errors import CorpusError

LINES = st.lists(st.sampled_from([b"", b"  ", *(json.dumps({"text": "x" * n}).encode() for n in (0, 3, 9, 40))]))


def read(config: CorpusConfig, skipped: list[str] | None = None) -> list[list]:
    return [list(read_shard(shard, config, skipped=skipped)) for shard in list_shards(config)]


@given(LINES, st.integers(1, 60), st.sampled_from([b"\n", b"\r\n"]), st.booleans(), st.booleans())
def test_every_line_is_read_once_in_the_part_where_it_begins(
    tmp_path_factory, lines, shard_bytes, end, is_ended, marks_order
):
    data = b"\xef\xbb\xbf" * marks_order + end.join(lines) + end * is_ended
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_bytes(data)
    config = CorpusConfig(paths=(str(path),), shard_bytes=shard_bytes)
    parts = read(config)
    assert len(parts) == max(1, -(-len(data) // shard_bytes))
    (whole,) = read(replace(config, shard_bytes=1 << 20))
    assert [document.text for document in chain(*parts)] == [document.text for document in whole]
    for part, documents in enumerate(parts if len(parts) > 1 else []):
        for document in documents:
            at = int(document.path.removeprefix("a.jsonl@"))
            assert part == at // shard_bytes
            line = data[at:].removeprefix(b"\xef\xbb\xbf").split(b"\n")[0]
            assert json.loads(line)["text"] == document.text and (at == 0 or data[at - 1 : at] == b"\n")


def test_a_bad_line_of_a_part_is_named_by_its_byte(tmp_path):
    good = b'{"text": "good"}\n'
    (tmp_path / "a.jsonl").write_bytes(good * 10 + b'{"text": 7}\n' + good * 10)
    config = CorpusConfig(paths=(str(tmp_path / "a.jsonl"),), shard_bytes=50)
    with pytest.raises(
        CorpusError, match=rf"text must be a string, got int: the line at byte {10 * len(good)} of /.*a"
    ):
        read(config)
    skipped: list[str] = []
    assert len(list(chain(*read(replace(config, on_error="skip"), skipped)))) == 20 and len(skipped) == 1


def test_what_can_be_read_from_its_start_alone_is_one_shard(tmp_path):
    data = b'{"text": "x"}\n' * 100
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b.jsonl").write_bytes(data)
    memory = fsspec.filesystem("memory")
    memory.pipe("/lines/b.jsonl", data)
    local, remote = str(tmp_path), "memory://lines/b.jsonl"
    numbers = {
        path: len(list_shards(CorpusConfig(paths=(path,), shard_bytes=100)))
        for path in (f"{local}/a.jsonl.gz", f"{local}/b.jsonl", remote, f"simplecache::{remote}")
    }
    assert list(numbers.values()) == [1, 14, 14, 1]
    texts = [[d.text for part in read(CorpusConfig(paths=(path,), shard_bytes=100)) for d in part] for path in numbers]
    assert texts == [["x"] * 100] * 4
    memory.rm("/lines", recursive=True)


def test_a_file_that_grows_while_its_parts_are_read_is_refused(tmp_path):
    path = Path(tmp_path, "a.jsonl")
    path.write_bytes(b'{"text": "x"}\n' * 10)
    config = CorpusConfig(paths=(str(path),), shard_bytes=60)
    shards = list_shards(config)
    path.write_bytes(b'{"text": "x"}\n' * 11)
    with pytest.raises(CorpusError, match="source must stay as it is while it is read"):
        list(read_shard(shards[1], config))
    assert {shard.identity for shard in shards}.isdisjoint(shard.identity for shard in list_shards(config))
