"""A server that is away is named before anybody wonders: through the library's log, and on the screen of a command."""

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dataservice import DataConfig, IngestError, StoreError
from dataservice.ingest import Ingest
from dataservice.store import retrying as store_retrying
from dataservice.store.retrying import Patience, TransientError, persist
from tokenizer import Tokenizer, waiting
from tokenizer.corpus import CorpusConfig, retrying

ROOT = Path(__file__).parents[1]
AWAY = "http://127.0.0.1:1/a.jsonl"


def refuse() -> None:
    raise ConnectionRefusedError("nobody")


def test_the_next_try_for_documents_is_told_and_short_pauses_are_not(monkeypatch, caplog):
    monkeypatch.setattr(retrying, "RETRY_PAUSES", (0.5, 1.0, 30.0))
    monkeypatch.setattr(retrying.time, "sleep", lambda seconds: None)
    with pytest.raises(ValueError, match="must answer"):
        retrying.with_retries(refuse, "s3://a")
    assert caplog.messages == [
        "waiting for s3://a: ConnectionRefusedError nobody; try 2 of 4, next in 1 s",
        "waiting for s3://a: ConnectionRefusedError nobody; try 3 of 4, next in 30 s",
    ]


def test_the_next_try_for_a_store_is_told_and_short_pauses_are_not(monkeypatch, caplog):
    def fail() -> None:
        raise TransientError("closing")

    monkeypatch.setattr(store_retrying, "_pause", lambda seconds, fault: None)
    with pytest.raises(ValueError, match="closing"):
        persist("grpc://a", fail, Patience(tries=4, first_pause=0.5), lambda fault: StoreError(str(fault)))
    assert caplog.messages == [
        "waiting for grpc://a: closing; try 2 of 4, next in 1 s",
        "waiting for grpc://a: closing; try 3 of 4, next in 2 s",
    ]


class Said(logging.Handler):
    """Keeps what is logged, and then sets an event."""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.event.set()


@pytest.mark.parametrize("kind", ["documents", "store"])
def test_an_answer_that_does_not_come_is_told_while_it_does_not(monkeypatch, kind):
    """The answer comes only after that was said."""
    monkeypatch.setattr(waiting, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(store_retrying, "SILENT_SECONDS", 0.05)
    said = Said()
    logging.getLogger("tokenizer").addHandler(said)
    try:
        if kind == "documents":
            assert retrying.with_retries(lambda: said.event.wait(60), AWAY)
        else:
            assert persist(AWAY, lambda: said.event.wait(60), Patience(), lambda fault: StoreError(str(fault)))
    finally:
        logging.getLogger("tokenizer").removeHandler(said)
    assert said.messages == [f"waiting for {AWAY}: no answer in 0.05 s; try 1 of {8 if kind == 'documents' else 11}"]


@pytest.mark.parametrize("command", ["dataservice prepare", "tokenizer train", "dataservice verify"])
def test_commands_print_what_they_wait_for(tmp_path, command):
    Tokenizer(np.array([[101, 32]]), ("<eot>", "<eod>")).save(tmp_path / "tokenizer")
    package, name = command.split()
    options = ["--output", "out"] if name != "verify" else []
    options += ["--tokenizer", "tokenizer"] if name == "prepare" else []
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", package, name, AWAY, *options],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline().removeprefix("warning: ")
        process.kill()
    assert line.startswith(f"waiting for {AWAY}") and "refused" in line and "next in" in line


def test_what_preparing_in_the_background_waits_for_is_told_to_who_waits_for_it(tmp_path, caplog):
    tokenizer = Tokenizer(np.array([[101, 32]]), ("<eot>", "<eod>"))
    ingest = Ingest(CorpusConfig(paths=(AWAY,)), tokenizer, tmp_path / "store", DataConfig())
    try:
        while not caplog.messages:
            if (fault := ingest.fault()) is not None:
                raise IngestError(fault)
            time.sleep(0.05)
    finally:
        ingest.close()
    assert caplog.messages[0].startswith(f"waiting for {AWAY}: ")
