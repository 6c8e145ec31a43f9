"""Processes and devices: the same mesh gives the same bits, another mesh the same batches and losses."""

import json
import socket
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = ["train.num_steps=10", "train.evaluate_every=5", "train.checkpoint_every=5"]


@pytest.fixture
def train_two(trainer):
    """train(*overrides, each) -> the outputs of two processes of one device; `each` is formatted with 1 and 2."""

    def train(*overrides: str, each: str = "distributed.num_processes=2", code: int = 0) -> list[str]:
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = probe.getsockname()[1]
        common = [
            "distributed.mode=explicit",
            f"distributed.coordinator=localhost:{port}",
            "distributed.num_processes=2",
        ]
        processes = [
            trainer.start(*overrides, *common, f"distributed.process_id={index}", each.format(index + 1))
            for index in range(2)
        ]
        outputs = [process.communicate(timeout=280)[0] for process in processes]
        assert [process.returncode for process in processes] == [code, code], "\n".join(outputs)
        return outputs

    return train


def result_of(run: Path) -> dict:
    closing = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return {name: closing[name] for name in ("step", "tokens", "held_out_loss", "unigram_entropy")}


def losses_of(run: Path) -> list[tuple]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(row["step"], row["length"], row["packed"], row["tokens"], row["loss"]) for row in rows if "loss" in row]


def test_two_processes_equal_two_devices_and_resume_each_other(trainer, train_two, read_state):
    folder = trainer.folder
    trainer.train("train.run=devices", *STEPS, devices=2)
    train_two("train.run=processes", *STEPS)
    assert losses_of(folder / "devices") == losses_of(folder / "processes")
    assert read_state(folder / "devices", 10) == read_state(folder / "processes", 10)
    assert result_of(folder / "devices") == result_of(folder / "processes")

    trainer.train("train.run=there", *STEPS, "train.num_steps=5", "optimizer.schedule=constant", devices=2)
    train_two("train.run=there", *STEPS, "optimizer.schedule=constant")
    train_two("train.run=back", *STEPS, "train.num_steps=5", "optimizer.schedule=constant")
    trainer.train("train.run=back", *STEPS, "optimizer.schedule=constant", devices=2)
    trainer.train("train.run=unbroken", *STEPS, "optimizer.schedule=constant", devices=2)
    expected = read_state(folder / "unbroken", 10)
    assert read_state(folder / "there", 10) == expected
    assert read_state(folder / "back", 10) == expected
    assert losses_of(folder / "there") == losses_of(folder / "back") == losses_of(folder / "unbroken")


def test_windows_removed_behind_two_processes_change_nothing(trainer, train_two, read_state):
    small = ["corpus.shard_bytes=1000", "train.checkpoint_every=2", "train.evaluate_every=0"]
    own = [*small, "train.run=own", "data.keep_windows=0", "data.ahead_windows=1", "train.keep_checkpoints=1"]
    trainer.train("train.run=devices", *small, "optimizer.schedule=constant", devices=2)
    train_two(*own, "train.num_steps=7", "optimizer.schedule=constant")
    (store,) = (trainer.folder / "own").glob("stores/*/shards")
    assert len(list(store.glob("*/shard.json"))) > len(list(store.glob("*/tokens.npy")))
    assert "resumed at step 7" in "".join(train_two(*own, "optimizer.schedule=constant"))
    assert losses_of(trainer.folder / "own") == losses_of(trainer.folder / "devices")
    assert read_state(trainer.folder / "own", 12) == read_state(trainer.folder / "devices", 12)


def test_one_device_takes_the_same_batches_with_the_same_losses(trainer):
    trainer.train("train.run=one", *STEPS)
    trainer.train("train.run=two", *STEPS, devices=2)
    one, two = losses_of(trainer.folder / "one"), losses_of(trainer.folder / "two")
    assert [row[:4] for row in one] == [row[:4] for row in two]
    np.testing.assert_allclose([row[4] for row in one], [row[4] for row in two], rtol=1e-5)
    assert len(one) == 10


def test_parameters_are_sharded_over_the_processes(trainer, train_two):
    """Each process writes only what it holds, so both must have written about half of the checkpoint."""
    train_two("train.run=run", *STEPS, "train.num_steps=5")
    state = trainer.folder / "run" / "checkpoints" / "5" / "state"
    sizes = [sum(file.stat().st_size for file in state.glob(f"ocdbt.process_{i}/**/*")) for i in range(2)]
    assert min(sizes) > 0.35 * sum(sizes)


def test_other_config_on_one_process_is_refused_on_both(train_two):
    outputs = train_two("train.run=run", each="optimizer.learning_rate=0.00{}", code=2)
    assert all("config must be the same on every process" in output for output in outputs)


def test_checkpoints_move_between_meshes_and_go_on_with_the_same_batches_and_losses(trainer):
    few = ["data.max_length=16", "train.evaluate_batches=0", "train.evaluate_every=0", "train.sample_prompt="]
    own = [*few, "optimizer.schedule=constant", "train.num_steps=10"]
    trainer.train("train.run=unbroken", *own)
    trainer.train("train.run=moved", *own, "train.num_steps=4")
    layers = trainer.train("train.run=moved", *own, "train.num_steps=7", "distributed.tensor_parallel=2", devices=4)
    whole = trainer.train("train.run=moved", *own, "distributed.shard_parameters=false", devices=2)
    assert "resumed at step 4" in layers and "resumed at step 7" in whole
    expected, found = losses_of(trainer.folder / "unbroken"), losses_of(trainer.folder / "moved")
    assert len(expected) == 10
    assert [row[:4] for row in found] == [row[:4] for row in expected]
    np.testing.assert_allclose([row[4] for row in found], [row[4] for row in expected], rtol=1e-5)
