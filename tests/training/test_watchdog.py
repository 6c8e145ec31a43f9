"""Runs that hang end by themselves, and say where they hung."""

import json
import signal
import socket
import time

import pytest

from training.exits import EXIT_DIVERGED, EXIT_STALLED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LIMITS = ["train.watchdog_seconds=4", "train.watchdog_factor=0", "train.evaluate_every=0"]
ENDLESS = ["train.num_steps=100000", "data.epochs=1000000", "train.checkpoint_every=100000"]
HANG_IN_DATA = """
import time
from dataservice.loader import BatchIterator
make = BatchIterator._make_batch
BatchIterator._make_batch = lambda self: time.sleep(1000) if self._step == 4 else make(self)
"""


def rows_of(run):
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_run_that_hangs_names_the_phase_and_leaves_its_stacks(trainer):
    output = trainer.train("train.run=run", *LIMITS, before=HANG_IN_DATA, code=EXIT_STALLED)
    line = output.splitlines()[-1]
    assert line.startswith("error: run must come forward within 4 s, got ")
    assert " s waiting for data of step 5; stacks are in run/stacks.txt; " in line
    assert "raise train.watchdog_seconds" in line
    stacks = (trainer.folder / "run" / "stacks.txt").read_text()
    assert "in _next_batch" in stacks and "in _next_batch" in output
    assert [row["step"] for row in rows_of(trainer.folder / "run")] == [1, 2, 3, 4]
    again = trainer.train("train.run=run", *LIMITS, "train.watchdog_seconds=0", "train.num_steps=5")
    assert "finished: 5 steps" in again


def start_two(trainer, *overrides, before=("", "")):
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        address = f"localhost:{probe.getsockname()[1]}"
    common = ["distributed.mode=explicit", f"distributed.coordinator={address}", "distributed.num_processes=2"]
    return [
        trainer.start(*overrides, *common, f"distributed.process_id={index}", before=before[index])
        for index in range(2)
    ]


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_process_whose_companion_is_lost_ends_and_says_where(trainer, number):
    first, second = start_two(trainer, "train.run=run", *LIMITS, *ENDLESS)
    try:
        while len(rows_of(trainer.folder / "run")) < 3:
            assert first.poll() is None and second.poll() is None
            time.sleep(0.1)
        second.send_signal(number)
        output, _ = first.communicate(timeout=280)
    finally:
        second.kill()
        second.communicate()
        first.kill()
    assert first.returncode == EXIT_STALLED, output
    line = next(line for line in output.splitlines() if line.startswith("error: "))
    assert " in step " in line and " of length " in line
    assert "start all" in line


def test_all_processes_end_when_one_hangs_in_its_data(trainer):
    processes = start_two(trainer, "train.run=run", *LIMITS, before=("", HANG_IN_DATA))
    outputs = [process.communicate(timeout=280)[0] for process in processes]
    assert [process.returncode for process in processes] == [EXIT_STALLED] * 2, "\n".join(outputs)
    assert "waiting for data of step 5" in "\n".join(outputs) or "in step 4 of length" in "\n".join(outputs)


def test_a_run_that_diverges_skips_steps_and_ends_with_its_own_code(trainer):
    settings = ["optimizer.learning_rate=1e30", "optimizer.warmup_steps=0", "train.max_bad_steps=3"]
    output = trainer.train("train.run=run", *settings, "train.log_every=100", code=EXIT_DIVERGED)
    assert output.count("its loss or gradient is not finite; rows: python -m training show run --step ") == 3
    assert "error: loss and gradient must be finite, got 3 steps in a row that were not, the last at step" in output
    assert [row["skipped"] for row in rows_of(trainer.folder / "run")] == [True] * 3
