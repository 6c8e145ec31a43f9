import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dataservice import DataConfig, IngestError, Store, StoreError, open_data, prepare
from dataservice.ingest import Ingest
from dataservice.opening import digest_corpus
from dataservice.store.lock import WriterLock
from tokenizer import CorpusConfig, Tokenizer
from tokenizer.corpus import list_shards

TOKENIZER = Tokenizer(np.array([[101, 32]]), ("<eot>", "<eod>"))
OTHER = Tokenizer(np.array([[97, 98]]), ("<eot>", "<eod>"))


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusConfig:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for index in range(4):
        lines = (json.dumps({"text": f"text {index} {row} " * 9}) for row in range(20))
        (folder / f"part-{index}.jsonl").write_text("\n".join(lines))
    return CorpusConfig(paths=(str(folder / "*.jsonl"),), held_out_fraction=0.2)


def data_config(folder: Path, **settings) -> DataConfig:
    return DataConfig(cache=str(folder / "cache"), workers=1, **settings)


def test_a_corpus_is_prepared_once_and_its_store_equals_a_prepared_one(corpus, tmp_path):
    seen: list[tuple] = []
    config = data_config(tmp_path)
    store = open_data(corpus, config, TOKENIZER, progress=lambda *arguments, **note: seen.append(arguments))
    assert store.is_complete and seen[-1] == ("prepare", 4, 4)
    prepare(corpus, TOKENIZER, tmp_path / "prepared", workers=1)
    assert store.prefix_digest(4) == Store.open(tmp_path / "prepared").prefix_digest(4)
    manifest = (store.path / "manifest.json").stat()
    again = open_data(corpus, config, TOKENIZER)
    assert again.path == store.path and (store.path / "manifest.json").stat() == manifest
    of_prepared = open_data(corpus, replace(config, store=str(tmp_path / "prepared")), TOKENIZER)
    assert of_prepared.path == tmp_path / "prepared"


def test_a_prepared_store_of_another_tokenizer_is_refused(corpus, tmp_path):
    prepare(corpus, TOKENIZER, tmp_path / "prepared", workers=1)
    with pytest.raises(StoreError, match=f"{OTHER.fingerprint}.*{TOKENIZER.fingerprint}"):
        open_data(corpus, data_config(tmp_path, store=str(tmp_path / "prepared")), OTHER)


def test_the_cache_tells_documents_settings_and_tokenizers_apart(corpus):
    from dataservice import TokenFormat

    def digest(corpus: CorpusConfig, tokenizer: Tokenizer = TOKENIZER) -> str:
        return digest_corpus(corpus, TokenFormat.of(tokenizer), list_shards(corpus))

    first = digest(corpus)
    others = [digest(replace(corpus, held_out_seed=1)), digest(corpus, OTHER)]
    part = Path(corpus.paths[0]).parent / "part-1.jsonl"
    part.write_text(part.read_text() + '{"text": "more"}')
    assert len({first, *others, digest(corpus)}) == 4


def test_a_fault_of_the_documents_ends_the_wait_with_its_line(corpus, tmp_path):
    (Path(corpus.paths[0]).parent / "part-2.jsonl").write_text("{")
    with pytest.raises(IngestError, match=r"line 1 of .*part-2.jsonl; corpus.on_error=skip") as caught:
        open_data(corpus, data_config(tmp_path), TOKENIZER)
    assert "\n" not in str(caught.value)


def test_an_ingest_waits_for_another_writer_and_carries_on_when_that_is_gone(corpus, tmp_path):
    output = tmp_path / "store"
    with WriterLock(output):
        ingest = Ingest(corpus, TOKENIZER, output, DataConfig(workers=1))
        assert ingest.fault() is None and not (output / "manifest.json").exists()
    try:
        while not (output / "manifest.json").exists():
            assert ingest.fault() is None
        store = Store.open(output)
        store.writer_fault = ingest.fault
        store.wait_for_shards(4)
        assert store.is_complete
    finally:
        ingest.close()


def test_an_ingest_that_is_killed_is_named(corpus, tmp_path):
    output = tmp_path / "store"
    with WriterLock(output):
        ingest = Ingest(corpus, TOKENIZER, output, DataConfig(workers=1))
        ingest.close()
        assert "got exit status -9" in str(ingest.fault())


PARENT = """
import pickle, sys
from dataservice import DataConfig
from dataservice.ingest import Ingest
corpus, tokenizer, output = pickle.load(sys.stdin.buffer)
ingest = Ingest(corpus, tokenizer, output, DataConfig(workers=1))
print(ingest.process_id, flush=True)
signal.pause()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux which processes live")
def test_the_ingest_dies_with_its_parent_though_that_is_killed(corpus, tmp_path):
    output = tmp_path / "store"
    arguments = [sys.executable, "-c", "import signal\n" + PARENT]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # Held here, the lock keeps the ingest from ending by itself.
    with (
        WriterLock(output),
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as parent,
    ):
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.write(pickle.dumps((corpus, TOKENIZER, output)))
        parent.stdin.close()
        child = int(parent.stdout.readline())
        assert lives(child)
        parent.kill()
        while lives(child):
            time.sleep(0.02)
    assert not (output / "manifest.json").exists()


def lives(process: int) -> bool:
    """Whether a process runs; a dead one that nobody has asked after does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
