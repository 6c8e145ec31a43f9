"""Ctrl-C at any moment of a command: one line, status 130 and no traceback, and it can be run again."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tokenizer import Tokenizer
from tokenizer.interrupts import interruptible

ROOT = Path(__file__).parents[1]
# In every Python that starts with this folder on its path: Ctrl-C comes into an import, or that we listen is said.
SITE = """
import _signal, os, sys

class Finder:
    left = int(os.environ.pop("INTERRUPT_IMPORT", 0))
    ready = int(os.environ.pop("READY", 0))

    def find_spec(self, name, path=None, target=None):
        handler = _signal.getsignal(_signal.SIGINT)
        if handler in (_signal.default_int_handler, _signal.SIG_IGN):
            return
        Finder.left -= 1
        if Finder.left == 0:
            os.kill(os.getpid(), _signal.SIGINT)
        if Finder.ready:
            os.close(Finder.ready)
            Finder.ready = 0

if Finder.left or Finder.ready:
    sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def commands(tmp_path: Path) -> dict[str, list[str]]:
    """Command lines of some seconds."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(SITE)
    Tokenizer(np.array([[101, 32]]), ("<eot>", "<eod>")).save(tmp_path / "tokenizer")
    for part in range(3):
        documents = [{"text": f"document {part} {row} " * 200} for row in range(300)]
        (tmp_path / f"{part}.jsonl").write_text("\n".join(map(json.dumps, documents)))
    corpus = [str(tmp_path / f"{part}.jsonl") for part in range(3)]
    made = ["--tokenizer", str(tmp_path / "tokenizer"), "--output", str(tmp_path / "store"), "--workers", "2"]
    return {
        "prepare": ["dataservice", "prepare", *corpus, *made],
        "train": ["tokenizer", "train", *corpus, "--output", str(tmp_path / "out"), "--workers", "2"],
        "help": ["dataservice", "--help"],
    }


def start(command: list[str], site: Path, *, descriptors: tuple[int, ...] = (), **environment: str):
    path = os.pathsep.join([str(site), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        pass_fds=descriptors,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def check(process: subprocess.Popen[str], moment: float, *, may_end: bool = False) -> None:
    _, errors = process.communicate(timeout=60)
    lines = errors.splitlines()
    if may_end and process.returncode == 0:
        return
    assert process.returncode == 130, (moment, errors)
    assert lines[-1].startswith("interrupted"), (moment, errors)
    # What a command says of its work comes before; nothing of it is Python's.
    assert all(line.startswith(("prepare: ", "count words: ", "merge pairs: ", "warning: ")) for line in lines[:-1]), (
        moment,
        errors,
    )


def interrupt_import(command: list[str], site: Path, number: int) -> bool:
    """Whether the command came to its import of that number, into which Ctrl-C comes."""
    process = start(command, site, INTERRUPT_IMPORT=str(number))
    check(process, number, may_end=True)
    return process.returncode == 130


def interrupt_after(command: list[str], site: Path, seconds: float) -> None:
    """Sends what a terminal sends, to all processes of the command, so long after it began to listen."""
    listening, ready = os.pipe()
    process = start(command, site, descriptors=(ready,), READY=str(ready))
    os.close(ready)
    select.select([listening], [], [], 60)
    os.close(listening)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    check(process, seconds, may_end=True)


@pytest.mark.parametrize(("name", "number"), [("prepare", 1), ("prepare", 60), ("prepare", 200), ("train", 2)])
def test_ctrl_c_in_an_import_is_one_line(commands, tmp_path, name, number):
    assert interrupt_import(commands[name], tmp_path / "site", number)


@pytest.mark.parametrize(("name", "seconds"), [("prepare", 1.0), ("train", 0.5)])
def test_ctrl_c_while_processes_start_is_one_line(commands, tmp_path, name, seconds):
    interrupt_after(commands[name], tmp_path / "site", seconds)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prepare", "train", "help"])
def test_ctrl_c_in_any_import_is_one_line(commands, tmp_path, name):
    number, numbers = 1, []
    while interrupt_import(commands[name], tmp_path / "site", number):
        numbers.append(number)
        number += 1 if number < 10 else number // 4
    assert len(numbers) >= (10 if name == "help" else 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prepare", "train"])
def test_ctrl_c_at_many_moments_is_one_line_and_the_command_can_be_run_again(commands, tmp_path, name):
    moments = random.Random(0)
    for _ in range(25):
        interrupt_after(commands[name], tmp_path / "site", moments.uniform(0, 3))
    process = start(commands[name], tmp_path / "site")
    process.communicate()
    assert process.returncode == 0
    assert not list(tmp_path.glob(".*")) and not list((tmp_path / "store").glob("incoming/*"))


LATE = """
import os, signal, sys

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT):
        kill(pid, number)

sys.late = Late()
print("done")
"""


def test_ctrl_c_while_python_takes_itself_down_changes_nothing(tmp_path):
    (tmp_path / "late").mkdir()
    (tmp_path / "late/__init__.py").write_text("from tokenizer import interrupts\n")  # as our packages do
    (tmp_path / "late/__main__.py").write_text(LATE)
    process = start(["late"], tmp_path)
    assert process.communicate()[1] == "" and process.returncode == 0


class Left:
    def __del__(self) -> None:
        raise self.error

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error


@pytest.mark.parametrize("replaces", [False, True])
def test_what_a_command_makes_of_unraisable_errors_outlasts_it_and_ctrl_c_does_not_end_others(monkeypatch, replaces):
    """Threads of a library may fail after the command: what it asked for then still holds."""
    outer, inner = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: outer.append(unraisable.exc_type))
    before = sys.unraisablehook
    with interruptible("interrupted"):
        if replaces:
            around = sys.unraisablehook
            monkeypatch.setattr(sys, "unraisablehook", lambda u: (inner.append(u.exc_type), around(u)))
    assert (sys.unraisablehook is before) == (not replaces)
    for error in (ValueError, KeyboardInterrupt):
        Left(error)
    assert outer == [ValueError, KeyboardInterrupt] and inner == outer * replaces
