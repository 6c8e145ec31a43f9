"""A run goes on only from a checkpoint of the same model, vocabulary, tokenizer, data and curriculum."""

import dataclasses

import pytest

from model import LlamaConfig
from training.errors import CheckpointError
from training.position import ADVICE, Position, check_position, model_differences

CONFIG = LlamaConfig(num_layers=2, dim=64, num_heads=4)
POSITION = Position(3, 768, "data digest", "schedule digest", "fingerprint", repr(CONFIG), 400)


@pytest.mark.parametrize("name", ["data", "schedule", "tokenizer"])
def test_a_difference_is_refused_in_a_line_with_both_values(name):
    other = POSITION._replace(**{name: "another"})
    with pytest.raises(CheckpointError) as caught:
        check_position(POSITION, other)
    line = f"{name} must be that of the checkpoint, {getattr(POSITION, name)}, got another; {ADVICE[name]}"
    assert str(caught.value) == line


def test_another_vocabulary_is_named_before_what_follows_from_it():
    other = POSITION._replace(vocabulary=401, tokenizer="another", data="another", model=repr(LlamaConfig()))
    with pytest.raises(CheckpointError, match=r"^vocabulary must be that of the checkpoint, 400, got 401; "):
        check_position(POSITION, other)


def test_another_model_is_named_by_the_fields_that_differ():
    other = dataclasses.replace(CONFIG, num_layers=3, tied_embeddings=True)
    with pytest.raises(CheckpointError) as caught:
        check_position(POSITION, POSITION._replace(model=repr(other)))
    was, now = "num_layers=2, tied_embeddings=False", "num_layers=3, tied_embeddings=True"
    assert str(caught.value) == f"model must be that of the checkpoint, {was}, got {now}; {ADVICE['model']}"


def test_steps_and_tokens_may_differ():
    check_position(POSITION, POSITION._replace(step=9, tokens=9))


def test_checkpoints_that_know_no_vocabulary_and_fewer_fields_go_on():
    older = repr(CONFIG).replace(", norm_epsilon=1e-05", "")
    assert older != repr(CONFIG)
    check_position(Position(*POSITION._replace(model=older)[:-1]), POSITION)
    newer = dataclasses.replace(CONFIG, norm_epsilon=1e-6)
    assert model_differences(older, repr(newer)) == ("norm_epsilon=1e-05", "norm_epsilon=1e-06")


def test_a_field_that_is_no_more_is_named():
    gone = repr(CONFIG).replace("num_layers=2", "num_layers=2, gated=True")
    assert model_differences(gone, repr(CONFIG)) == ("gated=True", "gated=not known")


def test_every_order_and_every_spelling_of_values_is_read():
    assert model_differences("LlamaConfig(a=(1, 'x, y=2'), b=inf)", "LlamaConfig(b=inf, a=(1,'x, y=2'))") == ("", "")


@pytest.mark.parametrize("text", ["", "LlamaConfig(", "3"])
def test_a_damaged_model_is_refused(text):
    with pytest.raises(CheckpointError, match="model of a checkpoint must be"):
        model_differences(text, repr(CONFIG))
