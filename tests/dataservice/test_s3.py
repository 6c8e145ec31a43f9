"""Documents and stores in an object store: s3fs against a server of moto on this machine."""

import json
import logging
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from dataservice import DataConfig, DataError, Store, batches, open_store, prepare
from tokenizer import CorpusConfig, Tokenizer
from tokenizer.corpus import list_shards, read_shard
from tokenizer.errors import CorpusError

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

TOKENIZER = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))
ROWS = [{"text": f"document {row} " + "word " * (row % 9), "repo": f"r{row % 5}", "lang": "C"} for row in range(300)]


@pytest.fixture(scope="module")
def bucket():
    """A file system of fsspec with an empty bucket, s3://documents."""
    fsspec = pytest.importorskip("fsspec")
    s3fs = pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line a request
    server.start()
    host, port = server.get_host_and_port()
    names = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patched:
        # In the environment, so that worker processes find it too.
        for name, value in {**names, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
            patched.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        system = fsspec.filesystem("s3")
        system.mkdir("documents")
        yield system
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture(scope="module")
def documents(bucket, tmp_path_factory) -> Path:
    """A local folder of documents, which is also s3://documents/corpus."""
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "table.parquet", row_group_size=50)
    (folder / "project").mkdir()
    (folder / "project" / "code.py").write_text("print('x')\n" * 40)
    bucket.put(str(folder), "documents/corpus", recursive=True)
    return folder


def test_documents_in_a_bucket_give_the_store_of_those_on_disk(bucket, documents, tmp_path):
    local = CorpusConfig(paths=(str(documents),), shard_bytes=4000)
    remote = CorpusConfig(paths=("s3://documents/corpus",), shard_bytes=4000)
    shards = list_shards(remote)
    assert len(shards) > 8 and len({shard.identity for shard in shards}) == len(shards)
    texts = [[d.text for d in chain.from_iterable(read_shard(s, c) for s in list_shards(c))] for c in (local, remote)]
    assert texts[0] == texts[1] and len(texts[0]) == 2 * len(ROWS) + 1
    prepare(local, TOKENIZER, tmp_path / "local", workers=1)
    prepare(remote, TOKENIZER, tmp_path / "remote", workers=2)
    stores = [Store.open(tmp_path / name) for name in ("local", "remote")]
    assert stores[0].shards.digests == stores[1].shards.digests
    assert prepare(remote, TOKENIZER, tmp_path / "remote", workers=1).new_shards == 0
    # Of the same size: its ETag tells.
    bucket.pipe("documents/corpus/rows.jsonl", (documents / "rows.jsonl").read_bytes().replace(b"word", b"Word"))
    with pytest.raises(DataError, match="must be as it was when it was prepared"):
        prepare(remote, TOKENIZER, tmp_path / "remote", workers=1)


def test_a_store_in_a_bucket_gives_the_batches_of_the_one_on_disk(bucket, documents, tmp_path):
    table = (str(documents / "table.parquet"),)
    corpus = CorpusConfig(paths=table, shard_bytes=4000, held_out_fraction=0.2, held_out_by="document")
    prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    bucket.put(str(tmp_path / "store"), "documents/store", recursive=True)
    local, remote = (
        DataConfig(
            store=place,
            cache=str(tmp_path / "cache"),
            min_length=4,
            max_length=32,
            tokens_per_step=256,
            window_shards=2,
        )
        for place in (str(tmp_path / "store"), "s3://documents/store")
    )
    expected = list(batches(open_store(local), local))
    for _ in range(2):  # fetched, then mirrored
        store = open_store(remote, TOKENIZER.fingerprint)
        found = list(batches(store, remote))
        assert len(found) == len(expected) > 8
        for one, other in zip(expected, found, strict=True):
            assert all(np.array_equal(one[name], other[name]) for name in one)
        assert store.held_out is not None and store.held_out.shards.documents.any()
        assert store.tokenizer().fingerprint == TOKENIZER.fingerprint


def test_what_is_not_in_the_bucket_is_said_in_a_line(bucket, tmp_path):
    with pytest.raises(DataError, match=r"s3://documents/none/manifest\.json must be there, got no such file"):
        open_store(DataConfig(store="s3://documents/none", cache=str(tmp_path)))
    for path, message in (
        ("s3://documents/none.jsonl", "source must be readable, got FileNotFoundError"),
        ("s3://nobucket/*.jsonl", "corpus.paths|source"),
    ):
        with pytest.raises(CorpusError, match=message) as caught:
            list_shards(CorpusConfig(paths=(path,)))
        assert "\n" not in str(caught.value)
