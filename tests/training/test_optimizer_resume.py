"""Whatever the optimizer keeps beside the parameters, a killed run ends with the same bits as an unbroken one."""

import json
import signal
import time

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NUM_STEPS = 40
SHORT = ["data.min_length=16", "data.max_length=16", f"train.num_steps={NUM_STEPS}", "train.evaluate_every=0"]
CASES = {
    "muon": ["optimizer.ema_decay=0.9", "train.microbatch_tokens=64", "optimizer.schedule=wsd"],
    "lion": ["optimizer.length_learning_rates={16: 0.5}", "optimizer.learning_rate=1e-3", "optimizer.schedule=linear"],
    "adamw": ["optimizer.ema_decay=0.99", "train.microbatch_tokens=128", "optimizer.length_loss_weights={16: 2}"],
}


def rows_of(run):
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def losses_of(run):
    return [(row["step"], row["loss"], row["learning_rate"]) for row in rows_of(run) if "loss" in row]


@pytest.mark.parametrize("name", CASES)
def test_killed_run_of_each_optimizer_ends_with_the_bits_of_the_unbroken_one(trainer, read_state, name):
    settings = [*SHORT, "train.checkpoint_every=5", f"optimizer.name={name}", *CASES[name]]
    trainer.train("train.run=unbroken", *settings)
    run, unbroken = trainer.folder / "killed", trainer.folder / "unbroken"
    process = trainer.start("train.run=killed", *settings)
    while process.poll() is None and not ((run / "checkpoints" / "5").is_dir() and len(rows_of(run)) >= 7):
        time.sleep(0.005)
    process.kill()
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, output
    assert "resumed at step" in trainer.train("train.run=killed", *settings)
    assert losses_of(run) == losses_of(unbroken)
    assert len(losses_of(run)) == NUM_STEPS
    state = read_state(run, NUM_STEPS)
    assert state == read_state(unbroken, NUM_STEPS)
    assert any("ema" in key for key in state) == ("ema_decay" in " ".join(settings))
