"""What one step does to the state: factors by length, the average of weights, microbatches, dtypes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from dataservice import Bucket
from model import LlamaConfig
from training.config import Config, DataConfig
from training.optimizers.config import OptimizerConfig
from training.step import batch_shapes, evaluated_params, init_state, make_recipe, make_train_step

VOCAB_SIZE = 48
MODEL = LlamaConfig(num_layers=2, dim=16, num_heads=2, hidden_dim=32, dtype="float32")
PLAIN, PACKED = Bucket(16, packed=False), Bucket(16, packed=True)
QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0}


class Words:
    """As much of a tokenizer as a recipe needs."""

    vocab_size = VOCAB_SIZE


def recipe_of(*, optimizer=None, architecture=MODEL, **train):
    data = DataConfig(min_length=8, max_length=32, tokens_per_step=128)
    optimizer = OptimizerConfig(**({"warmup_steps": 0, "schedule": "constant"} | (optimizer or {})))
    config = Config(data=data, model=architecture, optimizer=optimizer)
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, **train))
    return make_recipe(config, model.make_mesh(), Words(), np.dtype(np.uint16), 100)  # type: ignore[arg-type]


def draw_batch(recipe, bucket, seed=0):
    rng = np.random.default_rng(seed)
    shapes = batch_shapes(recipe, bucket)
    batch = {name: rng.integers(0, VOCAB_SIZE, shapes[name].shape).astype(np.uint16) for name in ("inputs", "targets")}
    if bucket.packed:
        # Segment 0 is padding, and ids are sorted within a row.
        return batch | {"segments": np.sort(rng.integers(0, 4, shapes["segments"].shape).astype(np.int32), axis=1)}
    return batch | {"weights": (rng.random(shapes["weights"].shape) < 0.8).astype(np.float32)}


def step_of(recipe):
    return jax.jit(make_train_step(recipe), compiler_options=QUICK)


def start_of(recipe):
    return jax.jit(functools.partial(init_state, recipe), compiler_options=QUICK)(jax.random.key(0))


def difference(a, b):
    """Largest difference of each array, relative to its largest value."""
    return jax.tree.map(lambda x, y: float(np.abs(np.subtract(x, y)).max() / np.abs(y).max()), a, b)


def assert_close(a, b, tolerance):
    for path, value in jax.tree.leaves_with_path(difference(a, b)):
        assert value <= tolerance, (jax.tree_util.keystr(path), value)


def change(recipe, bucket=PLAIN):
    """(metrics, how far each parameter moved) of one step from the start."""
    state = start_of(recipe)
    after, metrics = step_of(recipe)(state, draw_batch(recipe, bucket))
    return metrics, jax.tree.map(jnp.subtract, after["params"], state["params"])


def test_a_factor_of_the_learning_rate_scales_the_steps_of_its_length_alone():
    whole = change(recipe_of())
    for bucket in (PLAIN, PACKED):
        metrics, moved = change(recipe_of(optimizer={"length_learning_rates": {16: 0.25}}), bucket)
        reference, expected = change(recipe_of(), bucket)
        assert float(metrics["learning_rate"]) == 0.25 * float(reference["learning_rate"])
        assert_close(moved, jax.tree.map(lambda x: 0.25 * x, expected), 1e-4)
    metrics, moved = change(recipe_of(optimizer={"length_learning_rates": {8: 0.25, 32: 4.0}}))
    assert_close((metrics, moved), whole, 0)


def test_a_weight_of_the_loss_scales_the_gradient_of_its_length_alone():
    whole, _ = change(recipe_of())
    weighted, _ = change(recipe_of(optimizer={"length_loss_weights": {16: 2.0}}))
    other, _ = change(recipe_of(optimizer={"length_loss_weights": {8: 2.0}}))
    np.testing.assert_allclose(weighted["gradient_norm"], 2 * whole["gradient_norm"], rtol=1e-6)
    assert weighted["loss"] == whole["loss"]
    assert_close(other, whole, 0)


def test_a_factor_for_a_length_that_no_row_has_is_refused():
    with pytest.raises(ValueError, match=r"length_loss_weights must name lengths of the data \(8, 16, 32\), got 64; "):
        recipe_of(optimizer={"length_loss_weights": {64: 2.0}})


def test_the_average_is_the_weighted_mean_of_the_parameters_after_each_finite_step():
    decay, recipe = 0.9, recipe_of(optimizer={"ema_decay": 0.9, "learning_rate": 0.05})
    step, state, history = step_of(recipe), start_of(recipe), []
    for number in range(6):
        batch = draw_batch(recipe, PLAIN, seed=number)
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


def test_an_average_over_many_steps_begins_with_the_first_of_them():
    recipe = recipe_of(optimizer={"ema_decay": 0.9999, "learning_rate": 0.05})
    state, _ = step_of(recipe)(start_of(recipe), draw_batch(recipe, PLAIN))
    assert_close(state["ema"], state["params"], 1e-6)


def test_without_an_average_the_state_is_what_it_was_and_is_evaluated_itself():
    state = start_of(recipe_of())
    assert set(state) == {"params", "optimizer", "step"}
    assert evaluated_params(state) is state["params"]


@pytest.mark.parametrize("bucket", [Bucket(8, False), Bucket(32, False), Bucket(8, True)])
def test_a_step_in_passes_equals_the_whole_one(bucket):
    # An epsilon so large that the direction follows the gradient smoothly.
    whole, passes = (
        recipe_of(optimizer={"epsilon": 1e-2, "learning_rate": 0.1}, microbatch_tokens=tokens) for tokens in (0, 32)
    )
    batch = draw_batch(whole, bucket)
    expected = step_of(whole)(start_of(whole), batch)
    assert_close(step_of(passes)(start_of(passes), batch), expected, 3e-6)


def test_a_target_that_is_not_finite_in_any_pass_skips_the_whole_step():
    recipe = recipe_of(microbatch_tokens=32)
    batch, state = draw_batch(recipe, PLAIN), start_of(recipe)
    batch["weights"][3] = np.inf
    after, metrics = step_of(recipe)(state, batch)
    assert not metrics["finite"]
    assert_close(after["params"], state["params"], 0)


def test_a_step_in_bfloat16_is_near_that_in_float32_and_keeps_its_state_in_float32():
    half = dataclasses.replace(MODEL, dtype="bfloat16")
    optimizer = {"epsilon": 1e-2, "learning_rate": 0.1, "ema_decay": 0.9}
    found, expected = (
        step_of(recipe)(start_of(recipe), draw_batch(recipe, PLAIN))
        for recipe in (recipe_of(architecture=half, optimizer=optimizer), recipe_of(optimizer=optimizer))
    )
    assert {leaf.dtype for leaf in jax.tree.leaves(found[0])} == {np.dtype(np.float32), np.dtype(np.int32)}
    np.testing.assert_allclose(found[1]["loss"], expected[1]["loss"], rtol=2e-3)
    np.testing.assert_allclose(found[1]["gradient_norm"], expected[1]["gradient_norm"], rtol=2e-2)
    # bfloat16 has eight bits: a per cent and more of a gradient's largest entries.
    moments = jax.tree.leaves(difference(found[0]["optimizer"][1].mu, expected[0]["optimizer"][1].mu))
    assert 1e-4 < max(moments) < 0.05
