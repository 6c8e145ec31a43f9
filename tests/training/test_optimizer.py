import jax
import jax.numpy as jnp
import numpy as np
import pytest

from training.optimizer import decay_mask, decays, describe_decay, learning_rates, make_optimizer
from training.settings import OptimizerConfig


def adamw_by_hand(config, parameter, grads, rates):
    """AdamW as in the paper, float64, one parameter."""
    m = v = np.zeros_like(parameter)
    for t, (grad, rate) in enumerate(zip(grads, rates, strict=True), 1):
        m = config.beta1 * m + (1 - config.beta1) * grad
        v = config.beta2 * v + (1 - config.beta2) * grad**2
        direction = (m / (1 - config.beta1**t)) / (np.sqrt(v / (1 - config.beta2**t)) + config.epsilon)
        parameter = parameter - rate * (direction + config.weight_decay * parameter)
    return parameter


def test_updates_equal_adamw_by_hand():
    config = OptimizerConfig(learning_rate=0.1, warmup_steps=2, clip_norm=0.0, weight_decay=0.1)
    rng = np.random.default_rng(0)
    start = rng.normal(size=(3, 4))
    grads = rng.normal(size=(5, 3, 4))
    optimizer, schedule = make_optimizer(config), learning_rates(config, 5)
    params = {"head": jnp.asarray(start, jnp.float32)}
    state = optimizer.init(params)
    for t, grad in enumerate(grads):
        direction, state = optimizer.update({"head": jnp.asarray(grad, jnp.float32)}, state, params)
        params = jax.tree.map(lambda p, d, t=t: p - schedule(t) * d, params, direction)
    expected = adamw_by_hand(config, start, grads, [np.asarray(schedule(t)).item() for t in range(5)])
    np.testing.assert_allclose(params["head"], expected, rtol=1e-4, atol=1e-6)


def test_clipping_bounds_the_global_norm():
    optimizer = make_optimizer(OptimizerConfig(clip_norm=1.0, weight_decay=0.0))
    params = {"a": jnp.zeros(2), "b": jnp.zeros((2, 2))}
    grads = {"a": jnp.full(2, 3.0), "b": jnp.full((2, 2), 4.0)}
    norm = np.sqrt(2 * 9 + 4 * 16)
    clipped, _ = optimizer.update(grads, optimizer.init(params), params)
    by_hand, _ = optimizer.update(jax.tree.map(lambda g: g / norm, grads), optimizer.init(params), params)
    for ours, expected in zip(jax.tree.leaves(clipped), jax.tree.leaves(by_hand), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "ndim", "decayed"),
    [
        ("embedding", 2, False),
        ("head", 2, True),
        ("final_norm", 1, False),
        ("layers.attention.query", 4, True),
        ("layers.feed_forward.down", 3, True),
        ("layers.attention_norm", 2, False),
    ],
)
def test_matrices_decay_and_vectors_do_not(name, ndim, decayed):
    assert decays(name, ndim) is decayed


def test_every_parameter_of_a_model_is_named_once():
    import model

    params = model.abstract_params(model.LlamaConfig(num_layers=2, dim=8, num_heads=2), 16)
    mask = jax.tree.leaves(decay_mask(params))
    assert True in mask and False in mask
    line = describe_decay(params)
    for path, _ in jax.tree.leaves_with_path(params):
        assert line.count(jax.tree_util.keystr(path, simple=True, separator=".")) >= 1


def test_warmup_is_linear_and_cosine_ends_at_the_fraction():
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=10, final_fraction=0.1)
    rates = np.array([np.asarray(learning_rates(config, 100)(t)) for t in range(101)])
    np.testing.assert_allclose(rates[:11], np.arange(11) / 10, rtol=1e-6)
    middle = 10 + 45
    np.testing.assert_allclose(rates[middle], 0.1 + 0.9 * 0.5, rtol=1e-5)
    np.testing.assert_allclose(rates[100], 0.1, rtol=1e-5)
