import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dataservice import Store, StoreError, prepare, verify
from dataservice.prepare_shard import count_duplicates, hash_text
from tokenizer import CorpusConfig, CorpusError, Tokenizer

TOKENIZER = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """Durability cannot be tested here, and takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def write_corpus(folder: Path, num_files: int = 4) -> CorpusConfig:
    """JSON lines, one input shard a file: repeats, empty documents and several repositories."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for index in range(num_files):
        documents = [
            {
                "text": "the " * int(random.integers(0, 60)) + ("é😀" if row % 3 else ""),
                "repo": f"repository {row % 5}",
                "language": "text",
                "path": f"{index}/{row}",
            }
            for row in range(40)
        ]
        lines = "".join(json.dumps(document) + "\n" for document in documents)
        (folder / f"part-{index}.jsonl").write_text(lines)
    return CorpusConfig(paths=(str(folder / "*.jsonl"),), held_out_fraction=0.3)


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusConfig:
    return write_corpus(tmp_path / "corpus")


@pytest.fixture
def unbroken(corpus: CorpusConfig, tmp_path: Path) -> Path:
    prepare(corpus, TOKENIZER, tmp_path / "unbroken", workers=1)
    return tmp_path / "unbroken"


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def texts_of(store: Store) -> list[tuple[str, str]]:
    """(path, text) of every document, decoded."""
    found = []
    for shard in range(len(store.shards)):
        tokens, positions = store.tokens(shard), store.documents(shard)
        paths = store.sources(shard)["path"].to_pylist()
        for index, path in enumerate(paths):
            found.append((path, TOKENIZER.decode(tokens[positions[index] + 1 : positions[index + 1]].tolist())))
    return found


def read_lines(corpus: CorpusConfig) -> list[dict]:
    folder = Path(corpus.paths[0]).parent
    return [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]


def test_every_document_is_in_the_store_or_in_its_held_out_one_once(corpus, unbroken):
    store = Store.open(unbroken)
    assert store.held_out is not None and store.is_complete and verify(store) == []
    lines = read_lines(corpus)
    expected = sorted((line["path"], line["text"]) for line in lines if line["text"])
    training, held_out = texts_of(store), texts_of(store.held_out)
    assert sorted(training + held_out) == expected and training and held_out
    repository = {line["path"]: line["repo"] for line in lines}
    assert not {repository[path] for path, _ in training} & {repository[path] for path, _ in held_out}


def test_the_report_counts_what_was_left_out_and_repeated(corpus, tmp_path):
    report = prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    lines = read_lines(corpus)
    shards = [[line["text"] for line in lines[start : start + 40] if line["text"]] for start in range(0, 160, 40)]
    store = Store.open(tmp_path / "store")
    assert store.held_out is not None
    assert report.documents + report.held_out_documents == sum(map(len, shards))
    assert report.empty + store.held_out.manifest.totals["empty"] == sum(not line["text"] for line in lines)
    assert report.duplicates == sum(len(texts) - len(set(texts)) for texts in shards)
    assert report.shards == report.new_shards == 4
    assert report.tokens == sum(len(store.tokens(shard)) for shard in range(4))
    again = prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    assert again == replace(report, new_shards=0)


def test_two_workers_write_the_bytes_of_one(corpus, unbroken, tmp_path):
    lines: list[str] = []
    prepare(corpus, TOKENIZER, tmp_path / "two", workers=2, announce=lines.append)
    assert folder_bytes(tmp_path / "two") == folder_bytes(unbroken)
    assert "in 4 of 4 shards" in lines[0] and "by the first shard" in lines[1]


COMMAND = """
import sys, numpy as np
from pathlib import Path
from dataservice.preparation import prepare
from tokenizer import CorpusConfig, Tokenizer
if __name__ == "__main__":
    tokenizer = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))
    corpus = CorpusConfig(paths=(sys.argv[1],), held_out_fraction=0.3)
    begin = lambda line: print("begun", flush=True)
    prepare(corpus, tokenizer, Path(sys.argv[2]), workers=int(sys.argv[3]), announce=begin)
"""


@pytest.mark.parametrize(
    ("workers", "delays"),
    [
        ("1", (0.0, 0.03)),
        pytest.param("1", tuple(0.007 * step for step in range(30)), marks=pytest.mark.slow),
        pytest.param("2", tuple(0.15 * step for step in range(20)), marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_moment_and_run_again_the_bytes_are_the_same(corpus, unbroken, tmp_path, workers, delays):
    """SIGKILL some seconds after the work has begun, again and again on the same store."""
    output, expected = tmp_path / "killed", folder_bytes(unbroken)
    kills = 0
    for delay in delays:
        arguments = [sys.executable, "-c", COMMAND, corpus.paths[0], str(output), workers]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        if process.returncode == 0:
            break
        kills += 1
        if (output / "manifest.json").exists():
            assert verify(Store.open(output)) == []
    prepare(corpus, TOKENIZER, output, workers=1)
    assert kills and folder_bytes(output) == expected


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@pytest.mark.parametrize("function", ["os.fsync", "os.rename", "os.replace"])
def test_stopped_at_every_single_step_and_run_again_the_bytes_are_the_same(
    corpus, unbroken, tmp_path, monkeypatch, function
):
    """Every call that makes something durable or visible is, once, the last one."""
    expected, calls = folder_bytes(unbroken), 0
    original = getattr(os, function.removeprefix("os."))

    def count_down(*arguments, **options):
        nonlocal calls
        calls -= 1
        if calls == 0:
            raise Killed
        return original(*arguments, **options)

    output = tmp_path / "stopped"
    monkeypatch.setattr(function, count_down)
    for attempt in range(1, 200):
        calls = attempt
        try:
            prepare(corpus, TOKENIZER, output, workers=1)
        except Killed:
            if (output / "manifest.json").exists():
                assert verify(Store.open(output)) == []
        else:
            break
    assert attempt > 3 and folder_bytes(output) == expected


def test_reading_while_another_process_writes_sees_only_whole_prefixes(corpus, unbroken, tmp_path):
    whole = Store.open(unbroken)
    output = tmp_path / "growing"
    arguments = [sys.executable, "-c", COMMAND, corpus.paths[0], str(output), "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment) as process:
        while not (output / "manifest.json").exists():
            assert process.poll() is None
        store = Store.open(output)
        for count in range(1, 5):
            store.wait_for_shards(count)
            ready = len(store.shards)
            assert count <= ready and store.prefix_digest(ready) == whole.prefix_digest(ready)
            assert store.held_out is not None and len(store.held_out.shards) >= ready
            assert store.tokens(count - 1).tolist() == whole.tokens(count - 1).tolist()
    assert store.is_complete


def test_another_tokenizer_is_refused_by_both_fingerprints(corpus, unbroken):
    other = Tokenizer(np.array([[97, 98]]), ("<eot>", "<eod>"))
    with pytest.raises(StoreError, match=f"begun with .{TOKENIZER.fingerprint}.*got {other.fingerprint}"):
        prepare(corpus, other, unbroken, workers=1)


def test_other_settings_are_refused_by_name(corpus, unbroken):
    with pytest.raises(StoreError, match=r"held_out_seed of store .* must be 0 .* got 1"):
        prepare(replace(corpus, held_out_seed=1), TOKENIZER, unbroken, workers=1)


def test_documents_that_changed_since_they_were_prepared_are_refused(corpus, unbroken):
    path = Path(corpus.paths[0]).parent / "part-0.jsonl"
    path.write_text(path.read_text() + '{"text": "more"}\n')
    with pytest.raises(StoreError, match=r"part-0.* must be as it was when it was prepared"):
        prepare(corpus, TOKENIZER, unbroken, workers=1)


def test_more_documents_are_appended(corpus, unbroken, tmp_path):
    names = Store.open(unbroken).shards.names
    digest = Store.open(unbroken).prefix_digest(4)
    later = Path(corpus.paths[0]).parent / "part-4.jsonl"
    later.write_text('{"text": "more"}\n')
    report = prepare(corpus, TOKENIZER, unbroken, workers=1)
    store = Store.open(unbroken)
    assert report.new_shards == 1 and store.shards.names[:4] == names and store.prefix_digest(4) == digest


def test_a_bad_document_stops_with_its_place_and_skipping_carries_on(corpus, tmp_path):
    bad = Path(corpus.paths[0]).parent / "part-3.jsonl"
    bad.write_bytes(bad.read_bytes() + b'{"text": "\xff"}\n')
    with pytest.raises(CorpusError, match=r"line 41 of .*part-3.jsonl"):
        prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    assert len(Store.open(tmp_path / "store").shards) == 3
    report = prepare(replace(corpus, on_error="skip"), TOKENIZER, tmp_path / "store", workers=1)
    assert (report.shards, report.new_shards, report.skipped) == (4, 1, 1)


def test_a_full_disk_is_said_in_one_line_and_keeps_what_is_finished(corpus, unbroken, tmp_path, monkeypatch):
    from dataservice.store.shard import ShardWriter

    original, count = ShardWriter.append, 0

    def fill_disk(*arguments):
        nonlocal count
        count += 1
        if count == 5:
            raise OSError(28, "No space left on device")
        return original(*arguments)

    monkeypatch.setattr(ShardWriter, "append", fill_disk)
    with pytest.raises(StoreError, match=r"must be writable, got No space left on device; .*finished are kept"):
        prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    assert 0 < len(Store.open(tmp_path / "store").shards) < 4
    assert not (tmp_path / "store/incoming").exists() and not list((tmp_path / "store").rglob("*.partial"))
    prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    assert folder_bytes(tmp_path / "store") == folder_bytes(unbroken)


def test_the_size_of_compressed_input_is_guessed_as_text(corpus, tmp_path):
    folder, random = Path(corpus.paths[0]).parent, np.random.default_rng(1)
    words = [bytes(random.integers(97, 123, 6)).decode() for _ in range(3000)]
    for path in list(folder.glob("*.jsonl")):
        documents = (" ".join(random.choice(words, 400)) for _ in range(40))
        data = "".join(json.dumps({"text": document}) + "\n" for document in documents).encode()
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(data))
    lines: list[str] = []
    compressed = replace(corpus, paths=(str(folder / "*.gz"),), held_out_fraction=0.0)
    prepare(compressed, TOKENIZER, tmp_path / "store", workers=1, announce=lines.append)
    units = {"kB": 1e3, "MB": 1e6}
    sizes = re.findall(r"(?:writes about|and) ([\d.]+) (kB|MB)", " ".join(lines))
    guessed, measured = (float(number) * units[unit] for number, unit in sizes)
    written = sum(path.stat().st_size for path in (tmp_path / "store/shards").rglob("*.*"))
    # 3.5 bytes a token are for real vocabularies; this one has little over one.
    assert written / 6 < guessed < written
    assert written / 1.3 < measured < written * 1.3


def test_a_fraction_that_holds_nothing_out_is_said(corpus, tmp_path):
    lines: list[str] = []
    prepare(replace(corpus, held_out_fraction=1e-9), TOKENIZER, tmp_path / "none", workers=1, announce=lines.append)
    assert "no document is held out" in lines[-1]
    lines.clear()
    prepare(corpus, TOKENIZER, tmp_path / "some", workers=1, announce=lines.append)
    assert "held out" not in " ".join(lines)


def test_hashes_count_as_a_set_does():
    random = np.random.default_rng(0)
    texts = [str(number) for number in random.integers(0, 50, 200)]
    assert count_duplicates(b"".join(map(hash_text, texts))) == len(texts) - len(set(texts))
    assert count_duplicates(b"") == 0
