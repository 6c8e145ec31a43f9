import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from training.optimizers.config import OptimizerConfig
from training.optimizers.directions import make_optimizer
from training.optimizers.groups import decay_mask, decays, describe_groups

STEPS = 3
RATES = (0.1, 0.05, 0.02)
SHAPES = {"embedding": (5, 4), "head": (5, 4), "layers": {"down": (2, 6, 3), "up": (2, 3, 6), "norm": (2, 3)}}
DECAYED = ("head", "down", "up")


@pytest.fixture
def problem():
    """Parameters and the gradients of three steps, float64."""
    rng = np.random.default_rng(0)
    draw = lambda: jax.tree.map(lambda shape: rng.normal(size=shape), SHAPES, is_leaf=lambda x: isinstance(x, tuple))  # noqa: E731
    return draw(), [draw() for _ in range(STEPS)]


def moved(config, params, grads):
    """What our transformation makes of the parameters in float32, as the step applies it."""
    optimizer = make_optimizer(config)
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), params)
    state = optimizer.init(params)
    for grad, rate in zip(grads, RATES, strict=True):
        grad = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), grad)
        direction, state = optimizer.update(grad, state, params)
        params = jax.tree.map(lambda p, d, rate=rate: p - rate * d, params, direction)
    return params


def assert_equals(found, leaf_by_hand, params, grads):
    """`leaf_by_hand(name, parameter, its gradients)` -> the parameter after all steps."""
    for path, start in jax.tree.leaves_with_path(params):
        get = lambda tree, path=path: dict(jax.tree.leaves_with_path(tree))[path]  # noqa: E731
        expected = leaf_by_hand(path[-1].key, start, [get(grad) for grad in grads])
        np.testing.assert_allclose(get(found), expected, rtol=1e-4, atol=1e-5, err_msg=str(path))


def adamw(config, name, parameter, grads, factor=1.0):
    """Loshchilov and Hutter, algorithm 2, with the decay times the learning rate as in PyTorch."""
    m = v = np.zeros_like(parameter)
    decay = config.weight_decay if name in DECAYED else 0.0
    for t, (grad, rate) in enumerate(zip(grads, RATES, strict=True), 1):
        m = config.beta1 * m + (1 - config.beta1) * grad
        v = config.beta2 * v + (1 - config.beta2) * grad**2
        direction = (m / (1 - config.beta1**t)) / (np.sqrt(v / (1 - config.beta2**t)) + config.epsilon)
        parameter = parameter - factor * rate * (direction + decay * parameter)
    return parameter


def lion(config, name, parameter, grads):
    """Chen et al., algorithm 2."""
    m = np.zeros_like(parameter)
    decay = config.weight_decay if name in DECAYED else 0.0
    for grad, rate in zip(grads, RATES, strict=True):
        update = np.sign(config.beta1 * m + (1 - config.beta1) * grad)
        m = config.lion_momentum * m + (1 - config.lion_momentum) * grad
        parameter = parameter - rate * (update + decay * parameter)
    return parameter


def newton_schulz(matrix):
    """Five steps of Jordan's quintic iteration on one matrix."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / np.linalg.norm(x)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def muon(config, parameter, grads, scale):
    """Jordan's Muon with Nesterov momentum, a layer's matrix at a time; the momentum is an average without bias."""
    beta, after = config.muon_momentum, np.empty_like(parameter)
    for layer, matrix in enumerate(parameter):
        m = np.zeros_like(matrix)
        for t, (grad, rate) in enumerate(zip(grads, RATES, strict=True), 1):
            m = beta * m + (1 - beta) * grad[layer]
            ahead = beta * m / (1 - beta ** (t + 1)) + (1 - beta) * grad[layer] / (1 - beta**t)
            direction = newton_schulz(ahead) * scale(*matrix.shape)
            matrix = matrix - rate * (direction + config.weight_decay * matrix)
        after[layer] = matrix
    return after


def test_steps_equal_adamw_by_hand(problem):
    config = OptimizerConfig(clip_norm=0.0, weight_decay=0.1)
    assert_equals(moved(config, *problem), lambda *leaf: adamw(config, *leaf), *problem)


def test_steps_equal_lion_by_hand(problem):
    config = OptimizerConfig(name="lion", clip_norm=0.0, weight_decay=0.1)
    assert_equals(moved(config, *problem), lambda *leaf: lion(config, *leaf), *problem)


@pytest.mark.parametrize(
    ("rms", "scale"), [(0.2, lambda i, o: 0.2 * max(i, o) ** 0.5), (0.0, lambda i, o: max(1, o / i) ** 0.5)]
)
def test_steps_equal_muon_by_hand_on_every_layer_and_adamw_elsewhere(problem, rms, scale):
    config = OptimizerConfig(name="muon", clip_norm=0.0, weight_decay=0.1, muon_rms=rms, muon_adam_factor=0.3)

    def leaf_by_hand(name, parameter, grads):
        if name in ("down", "up"):
            return muon(config, parameter, grads, scale)
        return adamw(config, name, parameter, grads, factor=0.3)

    assert_equals(moved(config, *problem), leaf_by_hand, *problem)


def test_a_step_of_muon_has_the_root_mean_square_that_it_is_set_to():
    rng = np.random.default_rng(0)
    config = OptimizerConfig(name="muon", weight_decay=0.0)
    params = {"layers": {"up": jnp.zeros((2, 64, 16))}}
    optimizer = make_optimizer(config)
    grads = {"layers": {"up": jnp.asarray(rng.normal(size=(2, 64, 16)), jnp.float32)}}
    direction, _ = optimizer.update(grads, optimizer.init(params), params)
    (step,) = map(np.asarray, jax.tree.leaves(direction))
    root_mean_square = np.sqrt(np.mean(np.square(step), axis=(1, 2)))
    # Singular values end between 0.7 and 1.2, not at 1.
    np.testing.assert_allclose(root_mean_square, config.muon_rms, rtol=0.3)


@pytest.mark.peers
def test_steps_equal_adamw_of_torch(problem):
    torch = pytest.importorskip("torch")
    config = OptimizerConfig(clip_norm=0.0, weight_decay=0.1)

    def leaf_by_torch(name, parameter, grads):
        tensor = torch.nn.Parameter(torch.from_numpy(parameter.copy()))
        decay = config.weight_decay if name in DECAYED else 0.0
        betas = (config.beta1, config.beta2)
        optimizer = torch.optim.AdamW([tensor], betas=betas, eps=config.epsilon, weight_decay=decay)
        for grad, rate in zip(grads, RATES, strict=True):
            optimizer.param_groups[0]["lr"] = rate
            tensor.grad = torch.from_numpy(grad.copy())
            optimizer.step()
        return tensor.detach().numpy()

    assert_equals(moved(config, *problem), leaf_by_torch, *problem)


@pytest.mark.parametrize("name", ["adamw", "muon", "lion"])
def test_clipping_bounds_the_global_norm(problem, name):
    params, grads = problem
    config = OptimizerConfig(name=name, clip_norm=1.0)
    norms = [np.sqrt(sum(np.sum(x**2) for x in jax.tree.leaves(grad))) for grad in grads]
    by_hand = [
        jax.tree.map(lambda x, norm=norm: x / max(norm, 1.0), grad) for grad, norm in zip(grads, norms, strict=True)
    ]
    clipped, expected = moved(config, params, grads), moved(OptimizerConfig(name=name, clip_norm=0.0), params, by_hand)
    for a, b in zip(jax.tree.leaves(clipped), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_state_of_adamw_is_where_checkpoints_have_it():
    state = {"optimizer": make_optimizer(OptimizerConfig()).init({"head": jnp.zeros((2, 2))})}
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in jax.tree.leaves_with_path(state)]
    assert names == ["optimizer/1/count", "optimizer/1/mu/head", "optimizer/1/nu/head"]


@pytest.mark.parametrize(
    ("name", "ndim", "in_all_matrices", "by_default"),
    [
        ("embedding", 2, True, False),
        ("head", 2, True, True),
        ("final_norm.gain", 1, False, False),
        ("layers.query", 3, True, True),
        ("layers.down", 3, True, True),
        ("layers.attention_norm.gain", 2, False, False),
    ],
)
def test_matrices_decay_and_vectors_do_not(name, ndim, in_all_matrices, by_default):
    assert decays(name, ndim) is by_default
    assert decays(name, ndim, "matrices-and-embeddings") is in_all_matrices
    assert decays(name, ndim, "all") is True


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_parameter_of_a_model_is_named_once_in_each_line(name):
    params = model.abstract_params(model.LlamaConfig(num_layers=2, dim=8, num_heads=2), 16)
    mask = jax.tree.leaves(decay_mask(params))
    assert True in mask and False in mask
    lines = describe_groups(OptimizerConfig(name=name), params)
    assert len(lines) == (2 if name == "muon" else 1)
    expected = sorted(
        jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in jax.tree.leaves_with_path(params)
    )
    for line in lines:
        words = line.replace(",", "").replace(";", "").split()
        assert sorted(word for word in words if word in expected) == expected


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"final_fraction": 1.5}, "final_fraction must be between 0 and 1, got 1.5"),
        ({"decay_fraction": 0.0}, "decay_fraction must be above 0 and at most 1, got 0.0"),
        ({"ema_decay": 1.0}, "ema_decay must be at least 0 and below 1, got 1.0"),
        ({"length_loss_weights": {64: -1.0}}, "length_loss_weights must be a map to factors of at least 0"),
    ],
)
def test_settings_out_of_range_are_refused_with_their_value(setting, message):
    with pytest.raises(ValueError, match=message):
        OptimizerConfig(**setting)
