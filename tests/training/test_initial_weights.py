"""A run may start at the weights of another run or of a Hugging Face folder, if they are of its model and tokenizer."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

import model
import tokenizer as tokenizers
from model import LlamaConfig
from model.huggingface import write_model
from tokenizer import Tokenizer
from training.config import Config
from training.errors import TrainingError
from training.initial_weights import read_initial_weights, starting_state
from training.optimizers.config import OptimizerConfig
from training.settings import TrainConfig
from training.step import abstract_state, evaluated_params, make_recipe
from training.weights import read_weights, write_weights

CONFIG = LlamaConfig(num_layers=1, dim=16, num_heads=2, hidden_dim=32, dtype="float32")


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizers.train([("let gamma = alpha(7);\n" * 4, "b", "js")], vocab_size=280)


@pytest.fixture(scope="module")
def params(tokenizer):
    return model.init_params(CONFIG, tokenizer.vocab_size, jax.random.key(5))


@pytest.fixture(scope="module")
def sources(tmp_path_factory, tokenizer, params):
    """The same weights in every kind of place."""
    folder = tmp_path_factory.mktemp("sources")
    write_weights(folder / "run", params, CONFIG, tokenizer)
    tokenizer.save(folder / "hub")
    write_model(folder / "hub", params, CONFIG, max_length=64)
    return {"run": folder / "run", "step": folder / "run" / "checkpoints" / "0", "hub": folder / "hub"}


@pytest.fixture(scope="module")
def recipe(tokenizer):
    return make_recipe(Config(model=CONFIG), model.make_mesh(), tokenizer, np.dtype(np.uint16), 9)


@pytest.mark.parametrize("kind", ["run", "step", "hub"])
def test_a_run_starts_at_the_weights_and_with_a_fresh_optimizer(kind, sources, recipe, tokenizer, params):
    state = starting_state(recipe, TrainConfig(initial_weights=str(sources[kind])), tokenizer)
    jax.tree.map(np.testing.assert_array_equal, state["params"], params)
    fresh = starting_state(recipe, TrainConfig(), tokenizer)
    jax.tree.map(np.testing.assert_array_equal, state["optimizer"], fresh["optimizer"])
    assert state["step"] == 0
    assert jax.tree.map(lambda leaf: leaf.sharding, state) == jax.tree.map(lambda leaf: leaf.sharding, fresh)


def test_the_average_of_weights_starts_at_them_and_is_what_others_start_at(tmp_path, sources, tokenizer, params):
    settings = Config(model=CONFIG, optimizer=OptimizerConfig(ema_decay=0.9))
    recipe = make_recipe(settings, model.make_mesh(), tokenizer, np.dtype(np.uint16), 9)
    state = starting_state(recipe, TrainConfig(initial_weights=str(sources["run"])), tokenizer)
    jax.tree.map(np.testing.assert_array_equal, evaluated_params(state), params)
    shutil.copytree(sources["run"], tmp_path / "averaged")
    shutil.rmtree(tmp_path / "averaged" / "checkpoints" / "0")
    other = state | {"params": jax.tree.map(lambda leaf: leaf + 1, state["params"])}
    with ocp.CheckpointManager(tmp_path / "averaged" / "checkpoints") as manager:
        manager.save(7, args=ocp.args.Composite(state=ocp.args.StandardSave(other)))
    jax.tree.map(np.testing.assert_array_equal, read_weights(tmp_path / "averaged").params, params)


def refusal(source, recipe, tokenizer, config=CONFIG):
    with pytest.raises(TrainingError) as caught:
        read_initial_weights(source, config, tokenizer, abstract_state(recipe)["params"])
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["run", "step", "hub"])
def test_another_model_vocabulary_or_tokenizer_is_refused_with_both_named(kind, sources, recipe, tokenizer):
    place = sources[kind]
    wider = dataclasses.replace(CONFIG, num_layers=2, rope_base=5e5)
    expected = f"model must be that of {place}, num_layers=1, rope_base=100000.0, got num_layers=2, rope_base=500000.0;"
    assert refusal(place, recipe, tokenizer, wider).startswith(expected)
    larger = Tokenizer(tokenizer.pairs, pattern=tokenizer.pattern, special_tokens=[*tokenizer.special_tokens, "<new>"])
    counts = f"{tokenizer.vocab_size} tokens, got {larger.vocab_size} tokens; "
    assert refusal(place, recipe, larger).startswith(f"vocabulary must be that of {place}, {counts}")
    other = Tokenizer(tokenizer.pairs, pattern="gpt2", special_tokens=list(tokenizer.special_tokens))
    prints = f"{tokenizer.fingerprint}, got {other.fingerprint}; "
    assert refusal(place, recipe, other).startswith(f"tokenizer must be that of {place}, {prints}")


def test_weights_are_read_in_the_type_that_is_asked_for(sources, recipe, tokenizer, params):
    shapes = abstract_state(recipe)["params"]
    halved = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, "bfloat16", sharding=leaf.sharding), shapes)
    read = read_initial_weights(sources["run"], CONFIG, tokenizer, halved)
    jax.tree.map(np.testing.assert_array_equal, read, jax.tree.map(lambda leaf: leaf.astype("bfloat16"), params))


def test_how_a_model_is_computed_and_how_its_sizes_are_spelled_make_no_other_model(sources, recipe, tokenizer):
    spelled = dataclasses.replace(CONFIG, head_dim=8, num_kv_heads=2, dtype="bfloat16", remat="none")
    read_initial_weights(sources["run"], spelled, tokenizer, abstract_state(recipe)["params"])


def test_a_place_without_weights_is_refused(tmp_path, sources, recipe, tokenizer):
    assert refusal(tmp_path, recipe, tokenizer).startswith("train.initial_weights must be a run, RUN/checkpoints/STEP")
    missing = sources["step"].with_name("3")
    assert refusal(missing, recipe, tokenizer).startswith(f"step must be that of a checkpoint (0) of {sources['run']}")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_from_another_begins_at_its_held_out_loss_and_outlives_it(trainer, read_state):
    trainer.train("train.run=source", "train.num_steps=6", "train.checkpoints=elsewhere/source")
    assert (trainer.folder / "elsewhere" / "source" / "6").is_dir()
    assert not (trainer.folder / "source" / "checkpoints").exists()
    last = [row for row in rows_of(trainer.folder / "source") if "held_out_loss" in row and "finished" not in row][-1]
    start = ["train.initial_weights=source", "train.seed=3", "optimizer.schedule=constant"]
    trainer.train("train.run=unbroken", *start)
    first = rows_of(trainer.folder / "unbroken")[0]
    assert (first["step"], first["tokens"], first["held_out_loss"]) == (0, 0, last["held_out_loss"])
    trainer.train("train.run=broken", *start, "train.num_steps=4")
    shutil.rmtree(trainer.folder / "source")
    assert "resumed at step 4" in trainer.train("train.run=broken", *start)
    assert read_state(trainer.folder / "unbroken", 12) == read_state(trainer.folder / "broken", 12)
    output = trainer.train("train.run=third", *start, code=2)
    assert "train.initial_weights must be a run" in output and "attention: " not in output  # before compilation
    changed = trainer.train("train.run=broken", *start[1:], "train.num_steps=13", code=2)
    assert "train.initial_weights must be source" in changed


def rows_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
