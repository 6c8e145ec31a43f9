"""Processes of one run end together, each with a line that says why."""

import json
import signal
import socket
import time

import numpy as np
import pytest

from dataservice import prepare
from tokenizer import CorpusConfig, Tokenizer
from training.companions import end_together
from training.exits import EXIT_STALLED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def start_two(trainer):
    """start(*overrides, each, folders) -> two processes; `each` is formatted with 1 and 2."""

    def start(*overrides, each="train.seed=0", folders=(None, None)):
        common = [*overrides, "distributed.mode=explicit", f"distributed.coordinator=localhost:{free_port()}"]
        common += ["distributed.num_processes=2"]
        return [
            trainer.start(
                *common, f"distributed.process_id={index}", each.format(index + 1), cwd=folder or trainer.folder
            )
            for index, folder in enumerate(folders)
        ]

    return start


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def ends(processes):
    outputs = [process.communicate(timeout=280)[0] for process in processes]
    return [process.returncode for process in processes], outputs


def made(folder, first, text):
    """A folder with a tokenizer and a store, whose names say nothing of what is in them."""
    folder.mkdir()
    trained = Tokenizer(np.array([[first, 32]]), ("<eot>", "<eod>"))
    trained.save(folder / "tokenizer")
    documents = folder / "documents.jsonl"
    documents.write_text("".join(json.dumps({"text": f"{text} {n} " * 30}) + "\n" for n in range(40)))
    prepare(CorpusConfig(paths=(str(documents),)), trained, folder / "store", workers=1)
    return folder


@pytest.mark.parametrize(
    ("name", "others"), [("data", (101, "second")), ("tokenizer", (102, "first"))], ids=["store", "tokenizer"]
)
def test_another_store_or_tokenizer_under_the_same_name_is_refused_on_both(trainer, start_two, name, others):
    folders = (made(trainer.folder / "a", 101, "first"), made(trainer.folder / "b", *others))
    settings = ["data.store=store", "data.window_shards=0"]
    codes, outputs = ends(start_two(*settings, f"train.run={trainer.folder / 'run'}", folders=folders))
    assert codes == [2, 2], outputs
    for output in outputs:
        assert f"{name} must be the same on every process, got another on process 1 than on process 0" in output
        assert "Traceback" not in output


def test_what_one_process_fails_at_ends_the_other_with_its_line(trainer, start_two):
    folders = (made(trainer.folder / "a", 101, "first"), trainer.folder / "b")
    folders[1].mkdir()
    settings = ["data.store=store", "data.window_shards=0", f"train.run={trainer.folder / 'run'}"]
    codes, outputs = ends(start_two(*settings, folders=folders))
    assert codes == [2, 2], outputs
    (line,) = [line for line in outputs[1].splitlines() if line.startswith("error: ")]
    assert "store" in line
    assert f"error: process 1 ended: {line.removeprefix('error: ')}" in outputs[0].splitlines()


@pytest.mark.parametrize("process_id", [0, 1])
def test_a_process_whose_companions_do_not_come_says_for_whom_and_how_long_it_waited(trainer, process_id):
    place = f"localhost:{free_port()}"
    settings = ["distributed.mode=explicit", f"distributed.coordinator={place}", "distributed.num_processes=2"]
    settings += [f"distributed.process_id={process_id}", "distributed.timeout=5"]
    output = trainer.train(*settings, code=EXIT_STALLED)
    expected = f"error: all 2 processes at {place} must come within distributed.timeout=5 seconds, got no answer; "
    assert output.splitlines()[-1].startswith(expected), output


def test_ctrl_c_at_one_process_saves_and_stops_both(trainer, start_two):
    rare = ["train.checkpoint_every=1000", "train.evaluate_every=0", "train.num_steps=4000", "data.epochs=99"]
    processes = start_two("train.run=run", *rare)
    run = trainer.folder / "run"
    while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").stat().st_size:
        assert processes[0].poll() is None, processes[0].communicate()[0]
        time.sleep(0.01)
    processes[1].send_signal(signal.SIGINT)
    codes, outputs = ends(processes)
    assert codes == [128 + signal.SIGTERM, 128 + signal.SIGINT], outputs
    (step,) = (int(path.name) for path in (run / "checkpoints").iterdir())
    assert all(f"stopped at step {step}, saved" in output for output in outputs)


def test_a_run_of_one_process_has_nobody_to_tell():
    assert end_together("line", 2) == 2
