"""Runs and folders of transformers, opened the same way."""

import jax
import numpy as np
import pytest

import model.huggingface
from evaluation import EvaluationError, open_subject
from evaluation.report.places import open_places
from training.errors import TrainingError
from training.weights import open_run, write_weights


@pytest.fixture
def run(subject, tmp_path):
    write_weights(tmp_path / "run", subject.params, subject.config, subject.tokenizer)
    return tmp_path / "run"


@pytest.fixture
def folder(subject, tmp_path):
    subject.tokenizer.save(tmp_path / "folder")
    model.huggingface.write_model(tmp_path / "folder", subject.params, subject.config, max_length=64)
    return tmp_path / "folder"


def test_a_run_and_its_export_are_the_same_model(subject, run, folder):
    there, exported = open_subject(run), open_subject(folder)
    assert there.step == 0 and exported.step is None and exported.max_length == 64
    for other in (there, exported):
        assert other.tokenizer.fingerprint == subject.tokenizer.fingerprint
        jax.tree.map(np.testing.assert_array_equal, other.params, subject.params)


def test_the_rope_base_can_be_another(run):
    assert open_subject(run, rope_base=777).config.rope_base == 777.0
    with pytest.raises(EvaluationError, match="rope_base must be above 1"):
        open_subject(run, rope_base=0)


def test_what_is_no_model_is_refused(tmp_path, folder):
    with pytest.raises(EvaluationError, match="model must be a run"):
        open_subject(tmp_path)
    with pytest.raises(EvaluationError, match="step must be left out"):
        open_subject(folder, step=3)


def test_a_place_in_a_run_is_told_by_the_run_and_a_checkpoint_by_its_step(run):
    place = run / "checkpoints" / "0"
    assert place.is_dir()
    with pytest.raises(EvaluationError, match=rf"got {place}; name the run, {run}, and its checkpoint with --step 0$"):
        open_subject(place)
    with pytest.raises(EvaluationError, match=rf"; name the run, {run}$"):
        open_subject(run / "tokenizer")
    with pytest.raises(EvaluationError, match=rf"got {place}; name the run, {run}, and"):
        open_places([place])
    with pytest.raises(TrainingError, match=rf"got {place}; name the run, {run}, and its checkpoint with --step 0$"):
        open_run(place)
