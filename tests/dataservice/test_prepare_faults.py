import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dataservice import IngestError, Store, StoreError, preparation, prepare, prepare_shard, verify
from dataservice.executors import local
from dataservice.prepare_faults import MAX_IN_A_ROW
from dataservice.prepare_shard import ShardTask
from tokenizer import CorpusConfig, Tokenizer
from tokenizer.errors import CorpusError, SourceError, TokenizerError

LIMITED = Path(__file__).with_name("limited_file_size.py")
TOKENIZER = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def write_corpus(folder: Path, num_files: int = 6) -> CorpusConfig:
    """JSON lines, one input shard a file, part-000 and so on."""
    folder.mkdir()
    for index in range(num_files):
        lines = (f'{{"text": "document {index} {row}", "repo": "r{row % 5}"}}\n' for row in range(20))
        (folder / f"part-{index:03}.jsonl").write_text("".join(lines))
    return CorpusConfig(paths=(str(folder / "*.jsonl"),), held_out_fraction=0.3)


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusConfig:
    return write_corpus(tmp_path / "corpus")


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def unbroken(corpus: CorpusConfig, tmp_path: Path) -> dict[str, bytes]:
    prepare(corpus, TOKENIZER, tmp_path / "unbroken", workers=1)
    return folder_bytes(tmp_path / "unbroken")


def part(corpus: CorpusConfig, index: int) -> Path:
    return Path(corpus.paths[0]).parent / f"part-{index:03}.jsonl"


def poison(monkeypatch, names, error: Exception) -> list[str]:
    """Makes the shards of these names fail as long as they are in the list; the answer counts all tasks."""
    done: list[str] = []
    original = prepare_shard.prepare_shard

    def prepare_or_fail(task: ShardTask):
        done.append(task.shard.name)
        if task.shard.name in names:
            raise error
        return original(task)

    monkeypatch.setattr(preparation, "prepare_shard", prepare_or_fail)
    return done


@pytest.mark.parametrize("error", [MemoryError("none left"), SourceError("source must answer"), ValueError("strange")])
def test_a_poisoned_shard_is_put_off_and_the_others_are_finished(corpus, unbroken, tmp_path, monkeypatch, error):
    skipping, output = replace(corpus, on_error="skip"), tmp_path / "store"
    poisoned = ["part-002", "part-004"]
    done = poison(monkeypatch, poisoned, error)
    with pytest.raises(IngestError, match=r"got 2 set aside: part-002 \(.*; part-004 \(.*run again") as caught:
        prepare(skipping, TOKENIZER, output, workers=1)
    assert "\n" not in str(caught.value)
    assert set(done) == {f"part-{index:03}" for index in range(6)}
    # Only what comes before the first that failed is committed; the rest is finished.
    store = Store.open(output)
    assert store.shards.names == ("part-000", "part-001") and not store.is_complete and verify(store) == []
    made = {path: path.stat().st_mtime_ns for path in (output / "shards").glob("*/tokens.npy")}
    assert len(made) == 4
    poisoned.clear()
    prepare(skipping, TOKENIZER, output, workers=1)
    assert folder_bytes(output) == unbroken
    assert all(path.stat().st_mtime_ns == modified for path, modified in made.items())


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (MemoryError("none left"), IngestError, "part-002 must become a shard .*MemoryError none left.* in 3 tries"),
        (SourceError("source must answer"), SourceError, "source must answer"),
        (OSError(errno.ENOSPC, "No space left"), StoreError, "must be writable, got No space left"),
    ],
)
def test_without_skipping_the_first_poisoned_shard_ends_the_run(corpus, tmp_path, monkeypatch, error, kind, message):
    done = poison(monkeypatch, ["part-002"], error)
    with pytest.raises(kind, match=message):
        prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    assert Store.open(tmp_path / "store").shards.names == ("part-000", "part-001")
    assert "part-003" not in done


def test_a_full_disk_is_no_fault_of_a_shard(corpus, tmp_path, monkeypatch):
    poison(monkeypatch, ["part-002"], OSError(errno.ENOSPC, "No space left"))
    with pytest.raises(StoreError, match="must be writable"):
        prepare(replace(corpus, on_error="skip"), TOKENIZER, tmp_path / "store", workers=1)


def test_faults_of_every_shard_end_the_run_early(tmp_path, monkeypatch):
    corpus = replace(write_corpus(tmp_path / "corpus", 3 * MAX_IN_A_ROW), on_error="skip")
    done = poison(monkeypatch, [f"part-{index:03}" for index in range(100)], SourceError("no network"))
    with pytest.raises(IngestError, match=f"got {MAX_IN_A_ROW} set aside.* and 5 more"):
        prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    assert len(done) == MAX_IN_A_ROW


@pytest.mark.parametrize("change", ["vanish", "grow"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_input_that_changes_under_way_is_no_part_of_a_store(corpus, unbroken, tmp_path, monkeypatch, change, on_error):
    original, content = prepare_shard.prepare_shard, part(corpus, 3).read_bytes()
    status = part(corpus, 3).stat()

    def change_first(task: ShardTask):
        if task.shard.name == "part-003":
            part(corpus, 3).unlink() if change == "vanish" else part(corpus, 3).write_bytes(content * 2)
        return original(task)

    monkeypatch.setattr(preparation, "prepare_shard", change_first)
    settings, output = replace(corpus, on_error=on_error), tmp_path / "store"
    with pytest.raises((CorpusError, IngestError), match=r"part-003"):
        prepare(settings, TOKENIZER, output, workers=1)
    assert Store.open(output).shards.names == ("part-000", "part-001", "part-002")
    monkeypatch.setattr(preparation, "prepare_shard", original)
    part(corpus, 3).write_bytes(content)
    os.utime(part(corpus, 3), ns=(status.st_atime_ns, status.st_mtime_ns))
    prepare(settings, TOKENIZER, output, workers=1)
    assert folder_bytes(output) == unbroken


@pytest.mark.parametrize("call", ["fsync", "mkdir", "rename", "replace"])
def test_a_disk_that_is_full_at_any_call_leaves_nothing_half_written(corpus, unbroken, tmp_path, monkeypatch, call):
    """Each call that needs room fails, once each; the run ends in one line, and the next one carries on."""
    original, calls, output = getattr(os, call), 0, tmp_path / "store"

    def fill_disk(*arguments, **options):
        nonlocal calls
        calls -= 1
        if calls == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*arguments, **options)

    monkeypatch.setattr(os, call, fill_disk)
    for attempt in range(1, 200):
        calls = attempt
        try:
            prepare(corpus, TOKENIZER, output, workers=1)
        except (StoreError, TokenizerError) as error:
            assert "must be writable, got No space left on device" in str(error) and "\n" not in str(error)
            assert not list(output.rglob("*.partial"))
            if (output / "manifest.json").exists():
                assert verify(Store.open(output)) == []
        else:
            break
    monkeypatch.undo()
    assert attempt > 2 and folder_bytes(output) == unbroken


def kill_workers(pools: list[local.LocalPool], num_kills: int, seconds: float, stop: threading.Event) -> Iterator[int]:
    """Kills a random worker every so often, at most `num_kills` times."""
    draw, kills = random.Random(0), 0
    while kills < num_kills and not stop.wait(draw.uniform(0, 2 * seconds)):
        for worker in [draw.choice(pool._staff) for pool in pools if pool._staff]:
            with suppress(ValueError):
                worker._process.kill()
                kills += 1
    yield kills


@pytest.mark.parametrize(
    ("num_files", "num_kills"), [(10, 3), pytest.param(150, 50, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_workers_killed_at_random_moments_change_no_byte_of_the_store(tmp_path, monkeypatch, num_files, num_kills):
    corpus = write_corpus(tmp_path / "corpus", num_files)
    prepare(corpus, TOKENIZER, tmp_path / "unbroken", workers=1)
    # Chance may hit one task often; what a task may cost in a row is another test's matter.
    monkeypatch.setattr(local, "MAX_TRIES", 1000)
    pools: list[local.LocalPool] = []
    original = local.LocalPool.__init__

    def note(pool, *arguments):
        original(pool, *arguments)
        pools.append(pool)

    monkeypatch.setattr(local.LocalPool, "__init__", note)
    stop, kills = threading.Event(), []
    thread = threading.Thread(target=lambda: kills.extend(kill_workers(pools, num_kills, 0.3, stop)))
    thread.start()
    prepare(corpus, TOKENIZER, tmp_path / "store", workers=2)
    stop.set()
    thread.join()
    assert folder_bytes(tmp_path / "store") == folder_bytes(tmp_path / "unbroken")
    assert kills[0] > num_kills // 4 and pools


def kill_itself(task: ShardTask):
    if task.shard.name == "part-001":
        os.kill(os.getpid(), signal.SIGKILL)
    return prepare_shard.prepare_shard(task)


@pytest.mark.slow
def test_a_shard_that_kills_its_workers_is_put_off_alone(corpus, unbroken, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(preparation, "prepare_shard", kill_itself)
        with pytest.raises(IngestError, match=r"got 1 set aside: part-001 \(a killed worker process"):
            prepare(replace(corpus, on_error="skip"), TOKENIZER, tmp_path / "store", workers=2)
        with pytest.raises(IngestError, match=r"part-001 must become a shard .* a killed worker process .* in 3 tries"):
            prepare(corpus, TOKENIZER, tmp_path / "store", workers=2)
    prepare(corpus, TOKENIZER, tmp_path / "store", workers=2)
    assert folder_bytes(tmp_path / "store") == unbroken


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("limit", [100, 1400, 2600, 4000])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_writes_that_the_system_refuses_end_in_one_line(corpus, unbroken, tmp_path, limit, workers):
    """A limit on the size of files: every layer's own writes fail, as on a disk that is full."""
    output = tmp_path / "store"
    TOKENIZER.save(tmp_path / "tokenizer")
    command = [sys.executable, str(LIMITED), str(limit), "dataservice", "prepare", *corpus.paths]
    command += ["--tokenizer", str(tmp_path / "tokenizer"), "--output", str(output)]
    command += ["--held-out-fraction", "0.3", "--workers", workers]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and "must be writable" in done.stderr.strip().splitlines()[-1]
    assert not list(output.rglob("*.partial")) and not list(output.rglob("incoming/*"))
    if (output / "manifest.json").exists():
        assert verify(Store.open(output)) == []
    prepare(corpus, TOKENIZER, output, workers=1)
    assert folder_bytes(output) == unbroken


def test_what_is_left_out_is_named_with_its_reason(corpus, tmp_path):
    folder = tmp_path / "corpus"
    with (folder / "part-001.jsonl").open("a") as file:
        file.write("no json\n" * 9)
    with (folder / "part-003.jsonl").open("a") as file:
        file.write('{"repo": "r"}\n')
    lines: list[str] = []
    skipping = replace(corpus, on_error="skip")
    report = prepare(skipping, TOKENIZER, tmp_path / "store", workers=1, announce=lines.append)
    named = [line for line in lines if line.startswith("left out: ")]
    assert report.skipped == 10
    assert [("part-001" in line, "part-003" in line) for line in named] == [(True, False)] * 5 + [(False, True)]
