"""SIGKILL of who reads batches, and of who prepares them meanwhile: the stream goes on with the same bits."""

import hashlib
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from dataservice import DataConfig, Store, batches, prepare, verify
from dataservice.service.server import StoreServer
from dataservice.service.settings import ServerSettings
from tokenizer import CorpusConfig, Tokenizer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which processes live")

TOKENIZER = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))
PROGRAM = Path(__file__).with_name("batch_reader.py")
DIGEST_BYTES = 32
FOREVER = 1_000_000


class Readers:
    """Readers of one run, one after the other."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def start(self) -> int:
        """Start another one; return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write("another\n")
        self._process.stdin.flush()
        return self._answer()

    def wait(self) -> int:
        """Wait for its end; return its exit status, -9 when it was killed."""
        return self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def count(self) -> int:
        """Batches that are logged."""
        log = self._folder / "log"
        return log.stat().st_size // DIGEST_BYTES if log.exists() else 0

    def logged(self) -> list[bytes]:
        """Digests of the batches that are logged, but for one half written."""
        data = (self._folder / "log").read_bytes()
        return [data[at : at + DIGEST_BYTES] for at in range(0, len(data) - DIGEST_BYTES + 1, DIGEST_BYTES)]


@pytest.fixture
def open_readers(tmp_path) -> Iterator[Callable[[CorpusConfig, DataConfig], Readers]]:
    with ExitStack() as stack:

        def open_(corpus: CorpusConfig, config: DataConfig) -> Readers:
            folder = tmp_path / "run"
            folder.mkdir()
            (folder / "request").write_bytes(pickle.dumps((folder, corpus, config, TOKENIZER)))
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(folder / "request")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return Readers(process, folder)

        yield open_


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> CorpusConfig:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    (tmp_path / "documents").mkdir()
    draw = random.Random(0)
    for number in range(40):
        lines = (f'{{"text": "the {number} {row} {"word " * draw.randrange(9)}"}}\n' for row in range(20))
        (tmp_path / f"documents/{number:03}.jsonl").write_text("".join(lines))
    return CorpusConfig(paths=(str(tmp_path / "documents"),))


def config_of(tmp_path: Path, **settings) -> DataConfig:
    sizes = {"min_length": 4, "max_length": 32, "tokens_per_step": 256, "window_shards": 8, "cycles": 2}
    return DataConfig(cache=str(tmp_path / "cache"), workers=1, **{**sizes, **settings})


def digests(store: Store, config: DataConfig, count: int | None = None) -> list[bytes]:
    """What an unbroken run logs."""
    found = []
    for batch in islice(batches(store, replace(config, prefetch=0)), count):
        arrays = [batch[name].tobytes() for name in ("inputs", "targets", "weights", "segments") if name in batch]
        found.append(hashlib.sha256(repr([batch["step"], batch["length"], *arrays]).encode()).digest())
    return found


@pytest.mark.parametrize(
    ("kind", "is_served", "num_kills"),
    [
        ("decomposed", False, 6),
        pytest.param("decomposed", False, 50, marks=pytest.mark.slow),
        pytest.param("concatenated-masked", True, 50, marks=pytest.mark.slow),
    ],
)
def test_readers_killed_at_random_moments_log_the_batches_of_an_unbroken_run(
    open_readers, corpus, tmp_path, kind, is_served, num_kills
):
    prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    store, place = Store.open(tmp_path / "store"), str(tmp_path / "store")
    with ExitStack() as stack:
        if is_served:
            server = stack.enter_context(StoreServer(store, ServerSettings(host="127.0.0.1", port=0)))
            place = server.url
        config = config_of(tmp_path, store=place, sequences=kind, epochs=FOREVER)
        readers, draw = open_readers(corpus, config), random.Random(1)
        for number in range(num_kills):
            reader, count = readers.start(), readers.count() + draw.randrange(40)
            # Every other one is killed at any moment, also while it starts, the others at any step.
            while number % 2 and readers.count() < count:
                assert lives(reader)
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.001 if number % 2 else 0.3))
            os.kill(reader, signal.SIGKILL)
            assert readers.wait() == -signal.SIGKILL
    found = readers.logged()
    assert len(found) > 10
    assert found == digests(store, config, len(found))
    # The last one may have been killed over an index.
    assert len(list((tmp_path / "store").rglob("*.partial"))) <= 1 and verify(store) == []


def lives(process: int) -> bool:
    """Whether it runs: one that ended and is not waited for does not."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def children_of(process: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(status.parent.name))
    return found


@pytest.mark.slow
def test_readers_and_ingests_killed_while_documents_are_prepared_change_no_bit(open_readers, corpus, tmp_path):
    config = config_of(tmp_path, epochs=2)
    readers, draw = open_readers(corpus, config), random.Random(2)
    for number in range(12):
        reader = readers.start()
        if number == 0:
            # Its ingest lives for part of a second: not a moment at random, or there may be none to kill.
            while not (children := children_of(reader)):
                assert lives(reader), "the reader ended without an ingest"
                time.sleep(0.005)
            victim = draw.choice(children)
        else:
            time.sleep(draw.uniform(0, 2))
            victim = draw.choice([reader, *children_of(reader)])
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        # Without its ingest a reader ends in one line where it needs a window, or reads what is there to the end.
        assert readers.wait() in ((-signal.SIGKILL, 0) if victim == reader else (0, 2))
    readers.start()
    assert readers.wait() == 0
    prepare(corpus, TOKENIZER, tmp_path / "store", workers=1)
    assert readers.logged() == digests(Store.open(tmp_path / "store"), config)
