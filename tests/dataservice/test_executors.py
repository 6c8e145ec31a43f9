import os
import random
import signal
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dataservice.errors import IngestError
from dataservice.executors import MAX_TRIES, Failure, local, run_in_order
from tokenizer.errors import CorpusError


def name_of(marker: str) -> str:
    """A task that may kill its worker, as often as there are letters x in the marker's name, or raise."""
    path = Path(marker)
    for number in range(path.name.count("x")):
        trace = path.with_name(f"{path.name}-{number}")
        if not trace.exists():
            trace.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if path.name == "bad":
        raise CorpusError("line 3 must be whole")
    if path.name.startswith("unforeseen"):
        trace = path.with_name(f"{path.name}-{len(list(path.parent.glob('unforeseen-*')))}")
        trace.touch()
        raise MemoryError("no room\nat all")
    return path.name


def outcomes(tasks, workers, **options):
    return [outcome for group in run_in_order(name_of, tasks, workers, **options) for outcome in group]


def test_killed_workers_cost_only_their_task_which_is_done_again(tmp_path):
    names = ["a", "x", "b", "xx", "c"]
    assert outcomes([str(tmp_path / name) for name in names], 2) == names


@pytest.mark.slow
def test_a_task_that_kills_every_worker_fails_alone(tmp_path):
    names = ["a", "x" * MAX_TRIES, "b", "c"]
    first, poisoned, *others = outcomes([str(tmp_path / name) for name in names], 2)
    assert [first, *others] == ["a", "b", "c"]
    assert isinstance(poisoned, Failure) and poisoned.tries == MAX_TRIES
    assert "killed worker" in str(poisoned.error)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_errors_of_a_task_are_its_outcome(tmp_path, workers):
    good, bad, unforeseen = outcomes([str(tmp_path / name) for name in ("a", "bad", "unforeseen")], workers)
    assert good == "a"
    assert isinstance(bad, Failure) and bad.tries == 1 and isinstance(bad.error, CorpusError)
    assert isinstance(unforeseen, Failure) and isinstance(unforeseen.error, IngestError)
    assert unforeseen.tries == MAX_TRIES == len(list(tmp_path.glob("unforeseen-*")))
    assert "MemoryError no room" in str(unforeseen.error) and "\n" not in str(unforeseen.error)


@pytest.mark.parametrize("workers", [1, 2])
def test_no_task_is_begun_before_it_is_wanted(tmp_path, workers):
    wanted, begun = 2, []

    def is_wanted(index):
        if index < wanted:
            begun.append(index)
        return index < wanted

    groups = run_in_order(name_of, [str(tmp_path / name) for name in "abcdef"], workers, is_wanted=is_wanted)
    with closing(groups):
        found = []
        while len(found) < 2:
            found += next(groups)
        assert found == ["a", "b"] and max(begun) == 1
        wanted = 6
        for group in groups:
            found += group
    assert found == list("abcdef")


def pause(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_ending_early_ends_the_workers(tmp_path, monkeypatch):
    ended = []
    original = local.Worker.end

    def end(worker):
        ended.append(worker._process)
        original(worker)

    monkeypatch.setattr(local.Worker, "end", end)
    groups = run_in_order(pause, [0.0, 600.0, 600.0], 2)
    assert next(groups) == [0.0]
    groups.close()
    assert len(ended) == 2


@pytest.mark.slow
def test_workers_killed_at_random_moments_change_no_outcome(monkeypatch):
    """Fifty kills of whichever workers live; a task is done again more often than a poisoned one would be."""
    monkeypatch.setattr(local, "MAX_TRIES", 1000)
    pool = local.LocalPool(pause, 2)
    tasks = [0.02 + index / 1e6 for index in range(200)]
    for index, task in enumerate(tasks):
        pool.submit(index, task)
    draw, kills, found = random.Random(0), 0, {}
    stopped = threading.Event()

    def kill_some():
        nonlocal kills
        while kills < 50 and not stopped.wait(draw.uniform(0.0, 0.15)):
            for worker in draw.sample(pool._staff, min(1, len(pool._staff))):
                with suppress(ValueError):  # the pool has buried it already
                    worker._process.kill()
                    kills += 1

    thread = threading.Thread(target=kill_some)
    with closing(pool):
        thread.start()
        while len(found) < len(tasks):
            for index, outcome in pool.collect(0.1):
                assert index not in found
                found[index] = outcome
        stopped.set()
        thread.join()
    assert [found[index] for index in range(len(tasks))] == tasks and kills > 5
