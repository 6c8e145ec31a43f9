"""What one step does to the state: factors by length, the average of weights, microbatches, dtypes."""

import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from dataservice import Bucket
from model import LlamaConfig
from training.compilation import CompiledStep, compilation_table
from training.config import Config, DataConfig
from training.microbatches import microbatch_count
from training.optimizers.average import follow
from training.optimizers.config import OptimizerConfig
from training.placement import place_step
from training.settings import TrainConfig
from training.step import batch_shapes, evaluated_params, make_recipe, make_train_step, rate_shape, state_of

VOCAB_SIZE = 48
MODEL = LlamaConfig(num_layers=1, dim=16, num_heads=2, hidden_dim=32, dtype="float32")
PLAIN, PACKED = Bucket(16, packed=False), Bucket(8, packed=True)
QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0}
# An epsilon so large that the direction follows the gradient smoothly: rounding is not blown up to a step's size.
SMOOTH = OptimizerConfig(warmup_steps=0, schedule="constant", learning_rate=0.1, epsilon=1e-2)
WORDS: Any = SimpleNamespace(vocab_size=VOCAB_SIZE)


def recipe_of(*, tokens=128, architecture=MODEL, microbatch_tokens=0, num_steps=100, **optimizer):
    data = DataConfig(min_length=8, max_length=32, tokens_per_step=tokens)
    train = TrainConfig(microbatch_tokens=microbatch_tokens)
    config = Config(data=data, model=architecture, optimizer=dataclasses.replace(SMOOTH, **optimizer), train=train)
    return make_recipe(config, model.make_mesh(), WORDS, np.dtype(np.uint16), num_steps)


def draw_batch(recipe, bucket=PLAIN, seed=0):
    rng = np.random.default_rng(seed)
    shapes = batch_shapes(recipe, bucket)
    batch = {name: rng.integers(0, VOCAB_SIZE, shapes[name].shape).astype(np.uint16) for name in ("inputs", "targets")}
    if bucket.packed:
        # Segment 0 is padding, and ids are sorted within a row.
        return batch | {"segments": np.sort(rng.integers(0, 4, shapes["segments"].shape).astype(np.int32), axis=1)}
    return batch | {"weights": (rng.random(shapes["weights"].shape) < 0.8).astype(np.float32)}


def step_of(recipe):
    """(state, batch, bucket) -> (state, metrics)."""
    step = jax.jit(make_train_step(recipe), compiler_options=QUICK)
    return lambda state, batch, bucket=PLAIN: step(state, *place_step(recipe, bucket, batch, int(state["step"])))


@functools.cache
def parameters():
    return jax.jit(lambda key: model.init_params(MODEL, VOCAB_SIZE, key), compiler_options=QUICK)(jax.random.key(0))


def start_of(recipe):
    return state_of(recipe, parameters())


def take(recipe, bucket=PLAIN):
    """(state, metrics) of one step from the start."""
    return jax.device_get(step_of(recipe)(start_of(recipe), draw_batch(recipe, bucket), bucket))


@pytest.fixture(scope="module")
def whole_step():
    """(state, metrics) of a step of no particular settings."""
    return take(recipe_of())


def difference(a, b):
    """Largest difference of each array, relative to its largest value."""
    return jax.tree.map(lambda x, y: float(np.abs(np.subtract(x, y)).max() / max(np.abs(y).max(), 1e-30)), a, b)


def assert_close(a, b, tolerance):
    for path, value in jax.tree.leaves_with_path(difference(a, b)):
        assert value <= tolerance, (jax.tree_util.keystr(path), value)


def movement(state):
    return jax.tree.map(np.subtract, state["params"], jax.device_get(parameters()))


@pytest.mark.parametrize("bucket", [PLAIN, pytest.param(PACKED, marks=pytest.mark.slow)])
def test_factors_of_a_length_scale_its_rate_and_its_gradient(bucket):
    # Clipped to one norm, the direction does not tell the weight of the loss: the step shows the rate's factor alone.
    length = bucket.length
    recipe = recipe_of(length_learning_rates={length: 0.25}, length_loss_weights={length: 2.0}, clip_norm=1e-2)
    state, metrics = take(recipe, bucket)
    expected_state, expected = take(recipe_of(clip_norm=1e-2), bucket)
    assert metrics["learning_rate"] == 0.25 * expected["learning_rate"]
    np.testing.assert_allclose(metrics["gradient_norm"], 2 * expected["gradient_norm"], rtol=1e-5)
    assert metrics["loss"] == expected["loss"]
    assert_close(movement(state), jax.tree.map(lambda x: 0.25 * x, movement(expected_state)), 1e-4)


def test_runs_of_other_lengths_rates_and_schedules_share_their_executables():
    def program(num_steps, **optimizer):
        recipe = recipe_of(num_steps=num_steps, **optimizer)
        given = batch_shapes(recipe, PLAIN), rate_shape(recipe)
        return jax.jit(make_train_step(recipe)).lower(start_of(recipe), *given).as_text()

    expected = program(100)
    assert program(200, schedule="cosine", learning_rate=0.5, warmup_steps=7, final_fraction=0.3) == expected
    assert program(100, length_learning_rates={PLAIN.length: 0.5}) == expected
    assert program(100, weight_decay=0.7) != expected


def test_factors_of_other_lengths_change_nothing(whole_step):
    found = take(recipe_of(length_learning_rates={8: 0.25}, length_loss_weights={8: 2.0, 32: 3.0}))
    assert_close(found, whole_step, 0)


def test_a_factor_for_a_length_that_no_row_has_is_refused():
    with pytest.raises(ValueError, match=r"length_loss_weights must name lengths of the data \(8, 16, 32\), got 64; "):
        recipe_of(length_loss_weights={64: 2.0})


def test_the_average_is_the_weighted_mean_of_the_parameters_after_each_finite_step():
    decay, recipe = 0.9, recipe_of(ema_decay=0.9)
    step, state, history = step_of(recipe), start_of(recipe), []
    for number in range(6):
        batch = draw_batch(recipe, seed=number)
        if number in (0, 3):
            batch["weights"] = np.full_like(batch["weights"], np.nan)
        state, metrics = step(state, batch)
        assert bool(metrics["finite"]) == (number not in (0, 3))
        if metrics["finite"]:
            history.append(jax.tree.map(lambda x: np.asarray(x, np.float64), state["params"]))
    weights = decay ** np.arange(len(history))[::-1]
    expected = jax.tree.map(lambda *xs: np.tensordot(weights, np.stack(xs), axes=1) / weights.sum(), *history)
    assert int(state["ema_updates"]) == 4
    assert_close(evaluated_params(state), expected, 1e-6)
    assert max(jax.tree.leaves(difference(state["params"], expected))) > 1e-3


@pytest.mark.parametrize("updates", [1, 2, 1000])
def test_the_share_of_an_update_in_a_slow_average_is_exact(updates):
    found = follow({"a": jnp.zeros(1)}, {"a": jnp.ones(1)}, jnp.asarray(updates), 0.9999)
    np.testing.assert_allclose(found["a"], (1 - 0.9999) / (1 - 0.9999**updates), rtol=1e-6)


def test_without_an_average_the_state_has_none_and_is_evaluated_itself():
    state = start_of(recipe_of())
    assert set(state) == {"params", "optimizer", "step"}
    assert evaluated_params(state) is state["params"]


def test_a_step_in_passes_equals_the_whole_one_and_is_skipped_whole(whole_step):
    recipe = recipe_of(microbatch_tokens=32)
    step, start, batch = step_of(recipe), start_of(recipe), draw_batch(recipe)
    assert_close(step(start, batch), whole_step, 3e-6)
    batch["weights"][3] = np.inf
    after, metrics = step(start, batch)
    assert not metrics["finite"]
    assert_close(after["params"], start["params"], 0)


@pytest.mark.slow
@pytest.mark.parametrize("bucket", [PACKED, Bucket(8, False), Bucket(32, False)])
def test_a_step_of_every_bucket_in_passes_equals_the_whole_one(bucket):
    assert_close(take(recipe_of(microbatch_tokens=32), bucket), take(recipe_of(), bucket), 3e-6)


@pytest.mark.parametrize(
    ("rows", "length", "microbatch_tokens", "passes"),
    [(16, 8, 0, 1), (16, 8, 128, 1), (16, 8, 127, 2), (16, 8, 8, 16), (16, 8, 1, 16), (1, 128, 8, 1), (12, 8, 8, 4)],
)
def test_passes_are_as_many_as_it_takes_or_as_rows_allow(rows, length, microbatch_tokens, passes):
    assert microbatch_count(model.make_mesh(), rows, length, microbatch_tokens) == passes


def test_the_table_says_the_passes_and_which_lengths_have_too_few_rows():
    buckets = [Bucket(32, False), Bucket(8, False), PACKED]
    steps = [CompiledStep(bucket, None, 1.0, 0, 1.0) for bucket in buckets]
    lines = compilation_table(steps, recipe_of(microbatch_tokens=16))
    assert [line.split()[:3] for line in lines[1:4]] == [["32", "4", "4"], ["8", "16", "8"], ["8p", "16", "8"]]
    assert lines[4:] == ["too few rows for passes of 16 tokens, so in larger ones: length 32"]
    assert len(compilation_table(steps, recipe_of())) == 4


@pytest.mark.slow
def test_passes_need_less_memory():
    def temporary_bytes(microbatch_tokens):
        recipe = recipe_of(tokens=8192, microbatch_tokens=microbatch_tokens)
        given = batch_shapes(recipe, Bucket(32, packed=False)), rate_shape(recipe)
        step = jax.jit(make_train_step(recipe), compiler_options=QUICK)
        memory = step.lower(start_of(recipe), *given).compile().memory_analysis()
        assert memory is not None
        return memory.temp_size_in_bytes

    assert temporary_bytes(512) < temporary_bytes(0) / 4


def test_a_step_in_bfloat16_is_near_that_in_float32_and_keeps_its_state_in_float32(whole_step):
    state, metrics = take(recipe_of(architecture=dataclasses.replace(MODEL, dtype="bfloat16")))
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {np.dtype(np.float32), np.dtype(np.int32)}
    np.testing.assert_allclose(metrics["loss"], whole_step[1]["loss"], rtol=2e-3)
    np.testing.assert_allclose(metrics["gradient_norm"], whole_step[1]["gradient_norm"], rtol=2e-2)
    # bfloat16 has eight bits: a per cent and more of a gradient's largest entries.
    moments = jax.tree.leaves(difference(state["optimizer"][1].mu, whole_step[0]["optimizer"][1].mu))
    assert 1e-4 < max(moments) < 0.05
