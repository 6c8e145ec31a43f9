"""What happens to a run from without: each fault ends as documented, and the run goes on to the same bits."""

import json
import re
import resource
import signal
import time

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TIMES = ("seconds", "tokens_per_second", "data_wait", "mfu", "process_memory_mib")


def rows_of(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def wait_until(condition, process, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.002)


def stop_when(process, condition, *signals):
    """Send the signals as soon as it is so; the output of the process, which must say that it stopped."""
    wait_until(condition, process)
    for number in signals:
        process.send_signal(number)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 128 + signals[0], output
    assert "Traceback" not in output
    return output


def test_sigterm_in_every_phase_loses_no_step_that_was_taken(trainer, read_state):
    settings = ["train.num_steps=40", "data.epochs=9", "train.evaluate_every=13", "train.checkpoint_every=7"]
    trainer.train("train.run=unbroken", *settings)
    run, cache = trainer.folder / "stopped", trainer.folder / "other-cache"
    settings += ["train.run=stopped", f"data.cache={cache}"]

    def start():
        return trainer.start(*settings)

    def saved(step):
        return lambda: (run / "checkpoints" / str(step)).exists()

    def begun_to_save(step):
        return lambda: list((run / "checkpoints").glob(f"{step}*"))

    def stepped():
        return (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size > 0

    preparing = stop_when(start(), lambda: list(cache.glob("tokenizers/*")), signal.SIGTERM)
    assert "terminated; run the same command again" in preparing
    compiling = start()
    while "compile train step" not in compiling.stdout.readline():
        assert compiling.poll() is None
    assert "terminated; run the same command again" in stop_when(compiling, lambda: True, signal.SIGTERM)
    assert not (run / "checkpoints").exists()
    stepping = stop_when(start(), stepped, signal.SIGTERM, signal.SIGTERM)
    saving = stop_when(start(), begun_to_save(14), signal.SIGTERM)
    evaluating = stop_when(start(), saved(26), signal.SIGTERM)
    steps = [
        int(step)
        for text in (stepping, saving, evaluating)
        for step in re.findall(r"stopped at step (\d+), saved", text)
    ]
    assert 0 < steps[0] < 14 <= steps[1] < 26 <= steps[2] <= 40
    assert f"resumed at step {steps[0]}" in saving and f"resumed at step {steps[1]}" in evaluating
    assert f"resumed at step {steps[2]}" in trainer.train(*settings)
    assert rows_of(trainer.folder / "unbroken") == rows_of(run)
    assert read_state(trainer.folder / "unbroken", 40) == read_state(run, 40)


def test_a_full_disk_ends_a_run_in_a_line_and_room_lets_it_go_on(trainer, read_state):
    settings = ["train.num_steps=150", "data.epochs=99", "train.evaluate_every=0", "train.checkpoint_every=25"]
    process = trainer.start("train.run=run", *settings)
    checkpoints = trainer.folder / "run" / "checkpoints"
    wait_until(lambda: (checkpoints / "25").exists(), process)
    # No file may grow beyond this: what a disk says when it is full, of large files alone.
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 2, output
    lines = output[output.index("error: ") :].splitlines()
    assert len(lines) == 1, output
    steps = [int(path.name) for path in checkpoints.iterdir() if path.name.isdigit()]
    mend = f"make room there and run the same command again: it goes on from step {max(steps)}"
    assert lines[0].startswith("error: checkpoints must be written whole, got ") and lines[0].endswith(mend)
    assert f"resumed at step {max(steps)}" in trainer.train("train.run=run", *settings)
    trainer.train("train.run=unbroken", *settings)
    assert read_state(trainer.folder / "unbroken", 150) == read_state(trainer.folder / "run", 150)
    assert rows_of(trainer.folder / "unbroken") == rows_of(trainer.folder / "run")
