import os
import subprocess
import sys

import numpy as np
import pytest

from tokenizer import Tokenizer, TokenizerError
from training.config import load_config
from training.errors import ConfigError, TrainingError
from training.run import Run, run_of
from training.settings import DistributedConfig

EMPTY = "empty.yaml"


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    (tmp_path / EMPTY).write_text("")
    monkeypatch.chdir(tmp_path)


def run_for(*arguments):
    return run_of(load_config([EMPTY, *arguments]), [EMPTY, *arguments])


def test_overrides_make_another_run_and_the_file_alone_its_own():
    assert run_for().folder.as_posix() == "runs/empty"
    tried = run_for("model.num_layers=2", "train.num_steps=3")
    assert tried.folder.name.startswith("empty-")
    assert tried == run_for("train.num_steps=3", "model.num_layers=2")
    assert tried != run_for("model.num_layers=3", "train.num_steps=3")
    assert run_for("model.num_layers=2", "train.run=here").folder.as_posix() == "here"


def test_processes_of_one_run_share_its_folder():
    explicit = ["distributed.mode=explicit", "distributed.coordinator=a:1", "distributed.num_processes=2"]
    assert run_for(*explicit, "distributed.process_id=0") == run_for(*explicit, "distributed.process_id=1") == run_for()


def test_changed_setting_is_refused_and_free_ones_are_not():
    run = run_for()
    run.write_config(load_config([EMPTY]))
    run.check_config(load_config([EMPTY, "train.num_steps=7", "train.log_every=3", "data.workers=2"]))
    with pytest.raises(ConfigError, match=r"model.dim must be 768 in runs/empty, as it was there, got 96"):
        run.check_config(load_config([EMPTY, "model.dim=96"]))


def test_a_setting_that_a_run_does_not_name_has_its_default():
    run = run_for()
    run.folder.mkdir(parents=True)
    (run.folder / "config.yaml").write_text("optimizer: {learning_rate: 0.003}\n")
    run.check_config(load_config([EMPTY]))
    with pytest.raises(ConfigError, match=r"optimizer.name must be adamw in runs/empty, as it was there, got muon"):
        run.check_config(load_config([EMPTY, "optimizer.name=muon"]))


def test_every_setting_survives_the_run_folder():
    config = load_config([EMPTY, "data.mixture={64: 1e6}", "optimizer.epsilon=1e-7", "corpus.paths=[a, b]"])
    run = run_for()
    run.write_config(config)
    run.check_config(config)


def test_second_process_is_refused_and_the_lock_ends_with_its_holder():
    run = Run(run_for().folder)
    held = run.lock()
    with pytest.raises(TrainingError, match="one process at a time"):
        run.lock()
    held.close()
    run.lock().close()


def test_only_a_closing_row_and_a_plot_finish_a_run():
    run = run_for()
    run.folder.mkdir(parents=True)
    metrics = run.folder / "metrics.jsonl"
    metrics.write_text('{"step": 5, "tokens": 1, "seconds": 1.0}\n')
    run.plot.touch()
    assert run.finished_row(5) is None
    metrics.write_text('{"step": 5, "tokens": 1, "seconds": 1.0, "finished": true}\n')
    assert run.finished_row(5) is not None
    assert run.finished_row(6) is None
    assert run.finished_row(None) is not None
    run.plot.unlink()
    assert run.finished_row(5) is None


def test_a_folder_that_cannot_be_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match=r"train.run must be a folder that can be written, got file"):
        Run(run_for("train.run=file").folder).lock()


def test_a_run_never_begins_in_a_folder_of_something_else(tmp_path, owned):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").write_text("model: {dim: 96}  # mine\n")
    (tmp_path / "mine" / "notes.txt").touch()
    for folder, message in (
        ("mine", "got mine, a folder with config.yaml; choose another with train.run="),
        ("store", "got store, a folder with tokenizer"),
        ("run/tokenizer", "got run/tokenizer, part of a run"),
        ("store/shards/first", "got store/shards/first, part of a store"),
    ):
        (tmp_path / "store" / "tokenizer").mkdir(exist_ok=True)
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(TrainingError, match=f"train.run must be a new folder, or that of a run, {message}"):
            Run(run_for(f"train.run={folder}").folder).lock()
        assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "out.txt").touch()
    for folder in ("run", "begun", "logs", "new"):
        Run(run_for(f"train.run={folder}").folder).lock().close()


def test_a_run_keeps_what_lies_beside_its_tokenizer_and_takes_no_other_folder_for_it(tmp_path):
    made, other = (Tokenizer(np.array([[101, last]]), ("<eot>", "<eod>")) for last in (32, 33))
    run, config = run_for(), load_config([EMPTY])
    run.begin(config, made)
    (run.tokenizer / "notes.txt").write_text("mine")
    run.begin(config, made)
    with pytest.raises(TokenizerError, match=r"nothing else, got .* with notes.txt"):
        run.begin(config, other)
    assert (run.tokenizer / "notes.txt").read_text() == "mine"
    (run.tokenizer / "notes.txt").unlink()
    run.begin(config, other)
    assert Tokenizer.load(run.tokenizer).fingerprint == other.fingerprint


def test_config_in_the_folder_means_the_same_run_whoever_wrote_it():
    explicit = ["distributed.mode=explicit", "distributed.coordinator=a:1", "distributed.num_processes=2"]
    arguments = [EMPTY, "model.dim=96", *explicit, "distributed.process_id=0", "distributed.tensor_parallel=2"]
    run = run_of(load_config(arguments), arguments)
    run.write_config(load_config(arguments))
    again = [str(run.folder / "config.yaml"), "train.num_steps=5"]
    config = load_config(again)
    assert run_of(config, again) == run
    assert config.distributed == DistributedConfig(tensor_parallel=2)
    run.check_config(config)


@pytest.mark.parametrize("writes", [False, True])
def test_a_run_that_ends_before_it_wrote_anything_leaves_no_folder(tmp_path, writes):
    folder = tmp_path / "run"
    program = f"""
from pathlib import Path
from training.run import Run
folder = Path({str(folder)!r})
lock = Run(folder).lock()
if {writes}:
    (folder / "config.yaml").touch()
del lock
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert folder.exists() == writes
