"""What a run leaves behind does not depend on how often it was killed."""

import json
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from dataservice import Store, prepare
from tokenizer import CorpusConfig, Tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TIMES = ("seconds", "tokens_per_second", "data_wait", "mfu", "process_memory_mib")


def rows_of(run: Path) -> list[dict]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


@pytest.fixture
def assert_same_run(read_state):
    def check(a: Path, b: Path, step: int) -> None:
        assert rows_of(a) == rows_of(b)
        assert read_state(a, step) == read_state(b, step)

    return check


def wait_until(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.005)


def kill_when(process, condition) -> None:
    """SIGKILL, as soon as it is so."""
    wait_until(condition, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_run_killed_in_every_phase_ends_as_the_unbroken_one(trainer, assert_same_run):
    trainer.train("train.run=unbroken")
    shutil.rmtree(trainer.folder / "cache")
    run, cache = trainer.folder / "killed", trainer.folder / "cache"

    def tokenizers():
        return list(cache.glob("tokenizers/*/tokenizer.json"))

    kill_when(trainer.start("train.run=killed"), lambda: run.exists())
    assert not tokenizers()
    kill_when(trainer.start("train.run=killed"), tokenizers)
    rows = 0
    for _ in range(2):
        rows += 5

        def stepped(rows=rows):
            path = run / "metrics.jsonl"
            return path.exists() and path.read_text().count("\n") >= rows

        kill_when(trainer.start("train.run=killed"), stepped)
    output = trainer.train("train.run=killed")
    assert "resumed at step" in output
    assert_same_run(trainer.folder / "unbroken", run, 12)
    again = trainer.train("train.run=killed")
    assert "is finished: 12 steps" in again


def test_run_killed_at_random_moments_ends_as_the_unbroken_one(trainer, assert_same_run):
    """Every other kill falls anywhere, also while documents are prepared or steps compiled; the others among steps."""
    settings = ["train.num_steps=50", "data.epochs=9", "train.evaluate_every=25"]
    trainer.train("train.run=unbroken", *settings)
    shutil.rmtree(trainer.folder / "cache")
    run, draw = trainer.folder / "killed", random.Random(0)

    def num_rows():
        path = run / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    for number in range(5):
        process = trainer.start("train.run=killed", *settings)
        further = num_rows() + draw.randint(1, 12)
        while number % 2 and num_rows() < further and process.poll() is None:
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.1 if number % 2 else 6))
        process.kill()
        output, _ = process.communicate()
        assert process.returncode in (-signal.SIGKILL, 0), output
    trainer.train("train.run=killed", *settings)
    assert_same_run(trainer.folder / "unbroken", run, 50)


def test_sigterm_saves_where_it_is_and_the_run_goes_on_from_there(trainer, assert_same_run):
    # Checkpoints and evaluations have their own places, so that only the signal makes one in the middle.
    rare = ["train.checkpoint_every=1000", "train.evaluate_every=0", "train.num_steps=400", "data.epochs=9"]
    trainer.train("train.run=unbroken", *rare)
    process = trainer.start("train.run=stopped", *rare)
    run = trainer.folder / "stopped"
    wait_until(lambda: (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size > 0, process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, output
    (saved,) = (int(path.name) for path in (run / "checkpoints").iterdir())
    assert f"stopped at step {saved}, saved" in output
    assert 0 < saved < 400
    assert f"resumed at step {saved}" in trainer.train("train.run=stopped", *rare)
    assert_same_run(trainer.folder / "unbroken", run, 400)


def test_another_store_is_refused_in_a_line_with_both_digests_and_leaves_the_run_as_it_was(trainer):
    trained = Tokenizer(np.array([[101, 32]]), ("<eot>", "<eod>"))
    places = [str(trainer.folder / name) for name in ("first", "second")]
    for place in places:
        documents = trainer.folder / f"{place}.jsonl"
        documents.write_text("".join(json.dumps({"text": f"{place} {n} " * 30}) + "\n" for n in range(40)))
        prepare(CorpusConfig(paths=(str(documents),)), trained, place, workers=1)
    settings = ["train.run=run", "train.num_steps=4", "data.window_shards=0", "train.evaluate_every=0"]
    trainer.train(*settings, f"data.store={places[0]}")
    config = (trainer.folder / "run" / "config.yaml").read_text()
    output = trainer.train(*settings[:1], "train.num_steps=5", *settings[2:], f"data.store={places[1]}", code=2)
    (line,) = [line for line in output.splitlines() if line.startswith("error: ")]
    digests = [Store.open(place).prefix_digest(1) for place in places]
    assert f"data must be that of the checkpoint, {digests[0]}, got {digests[1]}; the store was changed" in line
    assert (trainer.folder / "run" / "config.yaml").read_text() == config
    moved = trainer.folder / "moved"
    shutil.move(places[0], moved)
    assert "resumed at step 4" in trainer.train(
        *settings[:1], "train.num_steps=5", *settings[2:], f"data.store={moved}"
    )


def test_windows_removed_behind_checkpoints_change_nothing(trainer, assert_same_run):
    small = "corpus.shard_bytes=1000"
    trainer.train("train.run=unbroken", small)
    own = ["train.run=own", small, "data.keep_windows=0", "data.ahead_windows=1", "train.keep_checkpoints=1"]
    run = trainer.folder / "own"
    kill_when(trainer.start(*own), lambda: list(run.glob("stores/*/removed/removal.json")))
    assert "resumed at step" in trainer.train(*own)
    assert_same_run(trainer.folder / "unbroken", run, 12)
    (store,) = run.glob("stores/*/shards")
    assert len(list(store.glob("*/shard.json"))) > len(list(store.glob("*/tokens.npy")))
    shutil.rmtree(run / "checkpoints")
    (run / "loss.png").unlink()
    output = trainer.train(*own, code=2)
    assert "must hold the windows of step 0" in output and "data.keep_windows" in output
    unbounded = trainer.train(*own[:-3], "data.ahead_windows=1", "train.num_steps=null", "train.run=other", code=2)
    assert "train.num_steps must say where to stop with data.ahead_windows" in unbounded


@pytest.mark.parametrize("seconds", [0.0, 0.5, 2.0])
def test_ctrl_c_before_the_first_step_ends_at_once_without_a_traceback(trainer, seconds):
    process = trainer.start("train.run=run")
    assert process.stdout.readline().startswith("run run on")
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, output
    assert "interrupted; run the same command again to go on" in output or "stopped at step" in output
    assert "Traceback" not in output


def test_a_longer_run_keeps_the_steps_already_taken(trainer, read_state):
    constant = ["optimizer.schedule=constant"]
    trainer.train("train.run=long", *constant)
    trainer.train("train.run=short", "train.num_steps=8", *constant)
    trainer.train("train.run=short", "train.num_steps=12", *constant)
    assert read_state(trainer.folder / "long", 12) == read_state(trainer.folder / "short", 12)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.seed=1", "data.seed must be 0"),
        ("model.num_layers=3", "model.num_layers must be 2"),
        ("tokenizer.vocab_size=401", "tokenizer.vocab_size must be 400"),
    ],
)
def test_other_settings_do_not_resume(trainer, override, message):
    trainer.train("train.run=run", "train.num_steps=4", "train.evaluate_every=0")
    output = trainer.train("train.run=run", "train.num_steps=5", override, code=2)
    assert message in output


def test_changed_corpus_is_refused_at_resume(trainer, tmp_path):
    own = tmp_path / "own"
    trainer.train("train.run=run", "train.num_steps=4", f"corpus.paths=[{own}]", code=2)
    own.mkdir()
    for number in range(40):
        (own / f"{number:02}.py").write_text(f"value_{number} = {number} * 17  # {'x' * number}\n" * 9)
    settings = ["train.run=run", f"corpus.paths=[{own}]", "tokenizer.priority=F", "data.window_shards=0"]
    trainer.train(*settings, "train.num_steps=4")
    (own / "00.py").write_text("other = 1\n" * 50)
    output = trainer.train(*settings, "train.num_steps=5", code=2)
    assert "must be that of the checkpoint" in output
