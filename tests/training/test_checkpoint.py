"""Checkpoints: only whole ones are gone on from, and as many are kept as was asked for."""

import dataclasses
import errno
import gc
import json
import os
import random
import shutil
import time
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from etils import epath

import model
from model import LlamaConfig
from training import checksums
from training.checkpoint import Checkpoints, restore_params
from training.checkpoint_folder import checkpoint_folder, claim_folder, committed_steps
from training.config import Config
from training.errors import CheckpointError
from training.initial_weights import starting_state
from training.position import Position
from training.run import Run
from training.settings import TrainConfig
from training.step import abstract_state, make_recipe

CONFIG = Config(model=LlamaConfig(num_layers=1, dim=8, num_heads=2, hidden_dim=16, dtype="float32"))


def position(step, tokens):
    return Position(step, tokens, "data", "schedule", "fingerprint", repr(CONFIG.model), 512)


@pytest.fixture(scope="module")
def recipe():
    tokenizer: Any = SimpleNamespace(vocab_size=512)
    return make_recipe(CONFIG, model.make_mesh(), tokenizer, np.dtype(np.uint16), 9)


@pytest.fixture(scope="module")
def state(recipe):
    tokenizer: Any = SimpleNamespace(vocab_size=512)
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


@pytest.fixture
def given_up():
    """Collect what is left of reads that orbax gave up, while the test still says that it is no matter."""
    yield
    gc.collect()


def inverted(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def largest_data_file(step_folder):
    index = bytes.fromhex("0cdb20de")  # which has checksums of its own
    files = [path for path in step_folder.glob("state/*.process_0/d/*") if path.read_bytes()[:4] != index]
    return max(files, key=lambda path: path.stat().st_size)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_array_with_an_inverted_byte_is_refused_by_name(tmp_path, recipe, state, given_up):
    saved(tmp_path, state, [3, 5])
    path = largest_data_file(tmp_path / "5")
    inverted(path, path.stat().st_size // 2)
    with pytest.raises(CheckpointError, match=rf"got {tmp_path}/5 \(.*\); delete that folder to go on from step 3$"):
        restored(tmp_path, recipe)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_data_file_cut_short_is_one_line_with_what_is_missing_and_the_older_checkpoint(
    tmp_path, recipe, state, given_up
):
    saved(tmp_path, state, [3, 5])
    os.truncate(largest_data_file(tmp_path / "5"), 100)
    with pytest.raises(CheckpointError) as caught:
        restored(tmp_path, recipe)
    line = str(caught.value)
    assert line.startswith(
        f"checkpoint must be whole and of this model, got {tmp_path}/5 (OUT_OF_RANGE: Error reading "
    )
    assert line.endswith("; delete that folder to go on from step 3") and "\n" not in line and "_spec" not in line


def test_a_save_that_failed_is_told_before_the_next_one(tmp_path, state, monkeypatch):
    checkpoints = opened(tmp_path)
    checkpoints.check()
    monkeypatch.setattr(checkpoints._manager, "_wait_for_checkpointers", raise_full_disk)
    checkpoints.save(state, 3, 300)
    with pytest.raises(
        CheckpointError, match=r"^checkpoints must be written whole, got .*No space left.*starts again$"
    ):
        for _ in range(1000):
            checkpoints.check()
            time.sleep(0.01)
    monkeypatch.undo()
    checkpoints.close()


def raise_full_disk():
    raise ValueError("Error writing") from OSError(errno.ENOSPC, "No space left on device")


def test_arrays_and_position_must_be_those_of_the_checksums(tmp_path, recipe, state):
    """Each sum is another by one, which stands for another array: every part is looked at, by whoever reads it."""
    saved(tmp_path, state, [5])
    path = tmp_path / "5" / "checksums" / "metadata"
    sums = json.loads(path.read_text())
    names = [jax.tree_util.keystr(at, simple=True, separator=".") for at, _ in jax.tree.leaves_with_path(state)]
    assert sorted(sums) == sorted([*names, "position"])
    for name in ("position", "params.embedding", names[0], names[-1]):
        path.write_text(json.dumps(sums | {name: sums[name] ^ 1}))
        with pytest.raises(CheckpointError, match=rf"\({name} is not what was saved: its checksum differs\)"):
            restored(tmp_path, recipe)
    path.write_text(json.dumps(sums | {"params.embedding": sums["params.embedding"] ^ 1}))
    place, shapes = epath.Path(tmp_path / "5"), abstract_state(recipe)["params"]
    with pytest.raises(CheckpointError, match=r"params.embedding is not what was saved: .*; take another$"):
        restore_params(place, shapes, "take another")
    shutil.rmtree(path.parent)  # of the first versions
    assert restored(tmp_path, recipe)[1] == 5
    assert values_of(restore_params(place, shapes, "")) == values_of(state["params"])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "bool"])
def test_checksums_are_sums_of_the_bits_modulo_two_to_the_32(dtype):
    array = jax.numpy.asarray(np.random.default_rng(0).integers(-(2**30), 2**30, (7, 9))).astype(dtype)
    words = np.asarray(array).view(f"uint{8 * array.dtype.itemsize}")
    assert checksums.sum_arrays({"a": {"b": array}}) == {"a.b": sum(map(int, words.ravel())) % 2**32}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_inverted_byte_anywhere_is_refused_or_changes_nothing(tmp_path, recipe, state, given_up):
    saved(tmp_path, state, [5])
    expected, refused, rng = values_of(marked(state, 5)), 0, random.Random(0)
    for path in sorted(path for path in (tmp_path / "5").rglob("*") if path.is_file()):
        size = path.stat().st_size
        for at in rng.sample(range(size), min(10 if path.parent.name == "d" else 2, size)):
            inverted(path, at)
            try:
                back, step, tokens = restored(tmp_path, recipe)
            except CheckpointError as error:
                assert str(tmp_path / "5") in str(error) and "\n" not in str(error)
                refused += 1
            else:
                assert (step, tokens, values_of(back)) == (5, 500, expected), (path, at)
            inverted(path, at)
    assert refused >= 20


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


def test_a_checkpoint_without_a_position_is_imported_or_damaged(tmp_path, recipe, state):
    for step, said in (
        (0, "start another run .* with train.initial_weights"),
        (3, "delete that folder to start again$"),
    ):
        saved(tmp_path, state, [step])
        shutil.rmtree(tmp_path / str(step) / "position")
        with pytest.raises(CheckpointError, match=rf"{tmp_path}/{step} without its folder position; .*{said}"):
            restored(tmp_path, recipe)
        shutil.rmtree(tmp_path / str(step))


def test_a_folder_of_checkpoints_is_of_one_run_alone(tmp_path, recipe, state):
    config = TrainConfig(checkpoints=str(tmp_path / "there"))
    first, second, moved = (Run(tmp_path / name) for name in ("first", "second", "moved"))
    for run in (first, second):
        run.folder.mkdir()
    claim_folder(first, config)
    refused = rf"^train.checkpoints must be of {second.folder} alone, got {tmp_path}/there of run {first.folder}; "
    with pytest.raises(CheckpointError, match=refused):  # while both are new
        claim_folder(second, config)
    (first.folder / "config.yaml").write_text("")
    (second.folder / "config.yaml").write_text("")
    saved(tmp_path / "there", state, [3])
    claim_folder(first, config)
    with pytest.raises(CheckpointError, match=refused):
        claim_folder(second, config)
    first.folder.rename(moved.folder)
    claim_folder(moved, config)
    assert restored(tmp_path / "there", recipe)[1] == 3


def test_a_new_run_does_not_go_on_from_checkpoints_that_nobody_owns(tmp_path, state):
    saved(tmp_path / "there", state, [3, 5])
    with pytest.raises(CheckpointError, match=rf"got {tmp_path}/there of another run \(steps 3, 5\); choose another"):
        claim_folder(Run(tmp_path / "new"), TrainConfig(checkpoints=str(tmp_path / "there")))
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.yaml").write_text("")  # of a version that wrote no owners
    claim_folder(Run(tmp_path / "new"), TrainConfig(checkpoints=str(tmp_path / "there")))


def test_a_folder_of_checkpoints_that_cannot_be_made_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"^train.checkpoints must be a folder that can be written, got .*file"):
        claim_folder(Run(tmp_path / "run"), TrainConfig(checkpoints=str(tmp_path / "file")))


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
