"""Checkpoints: only whole ones are gone on from, and as many are kept as was asked for."""

import dataclasses
import shutil
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from etils import epath

import model
from model import LlamaConfig
from training.checkpoint import Checkpoints, checkpoint_folder, committed_steps
from training.config import Config
from training.errors import CheckpointError
from training.initial_weights import starting_state
from training.position import Position
from training.run import Run
from training.settings import TrainConfig
from training.step import make_recipe

CONFIG = Config(model=LlamaConfig(num_layers=1, dim=8, num_heads=2, hidden_dim=16, dtype="float32"))


def position(step, tokens):
    return Position(step, tokens, "data", "schedule", "fingerprint", repr(CONFIG.model), 32)


@pytest.fixture(scope="module")
def recipe():
    tokenizer: Any = SimpleNamespace(vocab_size=32)
    return make_recipe(CONFIG, model.make_mesh(), tokenizer, np.dtype(np.uint16), 9)


@pytest.fixture(scope="module")
def state(recipe):
    tokenizer: Any = SimpleNamespace(vocab_size=32)
    return starting_state(recipe, TrainConfig(seed=7), tokenizer)


def opened(folder, *, release=lambda step: None, position=position, **settings):
    whole: dict[str, Any] = {"checkpoint_every": 1, "keep_checkpoints": 2} | settings
    return Checkpoints(epath.Path(folder), TrainConfig(**whole), position=position, release=release)


def saved(folder, state, steps, **settings):
    checkpoints = opened(folder, **settings)
    for step in steps:
        checkpoints.save(marked(state, step), step, step * 100)
    checkpoints.close()


def marked(state, step):
    return state | {"step": state["step"] + step}


def restored(folder, recipe, start=dict):
    checkpoints = opened(folder)
    try:
        return checkpoints.restore_or_start(recipe, start)
    finally:
        checkpoints.close()


def values_of(state):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)]


def test_a_run_goes_on_from_its_newest_checkpoint_with_the_same_bits(tmp_path, recipe, state):
    assert restored(tmp_path, recipe) == ({}, 0, 0)
    saved(tmp_path, state, [3, 5])
    back, step, tokens = restored(tmp_path, recipe)
    assert (step, tokens) == (5, 500)
    assert values_of(back) == values_of(marked(state, 5))


def test_the_latest_are_kept_and_those_of_the_period_for_ever(tmp_path, state):
    released = []
    saved(tmp_path, state, range(1, 9), release=released.append, keep_every=3)
    assert committed_steps(epath.Path(tmp_path)) == [3, 6, 7, 8]
    # What is kept for ever holds no documents back; every release is at or before the checkpoints of its moment.
    assert released == sorted(released) and released[-1] in (6, 7)


def test_without_a_period_only_the_latest_are_kept(tmp_path, state):
    saved(tmp_path, state, range(1, 6))
    assert committed_steps(epath.Path(tmp_path)) == [4, 5]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of reads that orbax gives up
def test_a_checkpoint_cut_short_anywhere_is_refused_or_changes_nothing(tmp_path, recipe, state):
    """Each file in turn is removed, halved or lacks its last byte."""
    saved(tmp_path / "whole", state, [3, 5])
    files = [path for path in (tmp_path / "whole" / "5").rglob("*") if path.is_file()]
    assert len(files) > 5
    expected, refused = values_of(marked(state, 5)), 0
    for number, path in enumerate(files):
        content = path.read_bytes()
        for rest in {None, len(content) // 2, len(content) - 1} - {len(content)}:
            folder = tmp_path / f"{number}-{rest}"
            shutil.copytree(tmp_path / "whole", folder)
            cut = folder / path.relative_to(tmp_path / "whole")
            cut.unlink() if rest is None else cut.write_bytes(content[:rest])
            try:
                back, step, tokens = restored(folder, recipe)
            except CheckpointError as error:
                assert str(folder / "5") in str(error) and "\n" not in str(error)
                refused += 1
            else:
                assert (step, tokens, values_of(back)) == (5, 500, expected), cut
            shutil.rmtree(folder)
    assert refused >= 9


def test_a_save_that_was_killed_is_not_seen_and_makes_room(tmp_path, recipe, state):
    saved(tmp_path, state, [3, 5])
    (tmp_path / "5").rename(tmp_path / "5.orbax-checkpoint-tmp")
    assert restored(tmp_path, recipe)[1] == 3
    assert not (tmp_path / "5.orbax-checkpoint-tmp").exists()


def test_another_model_is_refused_before_its_arrays_are_read(tmp_path, recipe, state):
    saved(tmp_path, state, [3])
    other = dataclasses.replace(CONFIG.model, num_layers=2)
    checkpoints = opened(tmp_path, position=lambda step, tokens: position(step, tokens)._replace(model=repr(other)))
    with pytest.raises(CheckpointError, match=r"^model must be that of the checkpoint, num_layers=1, got"):
        checkpoints.restore_or_start(recipe, dict)
    checkpoints.close()


def test_imported_weights_are_no_run_to_go_on_with(tmp_path, recipe, state):
    saved(tmp_path, state, [3])
    shutil.rmtree(tmp_path / "3" / "position")
    with pytest.raises(CheckpointError, match=r"3 without a position; start another run .* with train.initial_weights"):
        restored(tmp_path, recipe)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path, state):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"^checkpoints must be written whole, got .*file.* make room"):
        saved(tmp_path / "file", state, [3])


def test_checkpoints_lie_in_the_run_unless_they_are_told_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run(tmp_path / "run")
    assert checkpoint_folder(run, TrainConfig()) == epath.Path(tmp_path / "run" / "checkpoints")
    assert checkpoint_folder(run, TrainConfig(checkpoints="there")) == epath.Path(tmp_path / "there")


@pytest.mark.parametrize("place", ["s3://bucket/folder", "memory://folder", ""])
def test_places_that_orbax_cannot_write_to_are_refused(place):
    with pytest.raises(ValueError, match=r"^checkpoints must be a folder or gs://BUCKET/FOLDER, got '"):
        TrainConfig(checkpoints=place)


def test_a_cloud_without_its_package_is_refused_in_a_line(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(CheckpointError, match="gs://bucket/folder without the package gcsfs; pip install gcsfs"):
        checkpoint_folder(Run(tmp_path), TrainConfig(checkpoints="gs://bucket/folder"))


def test_a_period_is_a_multiple_of_the_steps_between_checkpoints():
    with pytest.raises(ValueError, match=r"^keep_every must be a multiple of checkpoint_every, 500, got 750"):
        TrainConfig(keep_every=750)
