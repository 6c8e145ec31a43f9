import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from model import LlamaConfig

VOCAB_SIZE = 61
SMALL = {"num_layers": 2, "dim": 32, "num_heads": 4, "hidden_dim": 48, "dtype": "float32"}
VARIANTS = {
    "llama2": LlamaConfig(**SMALL),
    "grouped-tied-llama3": LlamaConfig(
        **SMALL, num_kv_heads=2, tied_embeddings=True, rope_scaling="llama3", rope_base=100.0, rope_original_length=40
    ),
    "one-kv-head-linear": LlamaConfig(**SMALL, num_kv_heads=1, head_dim=6, rope_scaling="linear"),
    "openlm": LlamaConfig(**SMALL, norm="layer", qk_norm=True),
    "window-soft-cap": LlamaConfig(**SMALL, num_kv_heads=2, sliding_window=5, logits_soft_cap=2.0),
    "rms-qk-norm-grouped": LlamaConfig(**SMALL, num_kv_heads=2, qk_norm=True),
}


@pytest.fixture(scope="module")
def logits(quick_jit):
    return quick_jit(model.logits, static_argnames="config")


def draw_tokens(rows, length, seed=0):
    return jnp.asarray(np.random.default_rng(seed).integers(0, VOCAB_SIZE, (rows, length)), jnp.uint16)


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_equal_a_float64_reference_plain_and_packed(variant, logits, reference, draw_params):
    config = VARIANTS[variant]
    params, tokens = draw_params(config, VOCAB_SIZE), draw_tokens(2, 24)
    segments = np.array([[1] * 7 + [2] * 10 + [0] * 7, [1] * 24], np.int32)
    for kinds in (None, segments):
        expected = reference.logits(params, config, tokens, kinds)
        found = logits(params, config, tokens, segments_BL=kinds)
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


def test_packed_rows_equal_separate_documents(logits, draw_params):
    config = VARIANTS["openlm"]
    params, tokens = draw_params(config, VOCAB_SIZE), draw_tokens(1, 24)
    segments = np.array([[1] * 8 + [2] * 16], np.int32)
    packed = logits(params, config, tokens, segments_BL=segments)
    alone = [logits(params, config, part) for part in (tokens[:, :8], tokens[:, 8:])]
    np.testing.assert_allclose(packed, np.concatenate(alone, axis=1), atol=1e-5)


def test_another_document_of_a_packed_row_changes_no_bit(draw_params):
    logits = jax.jit(model.logits, static_argnames="config")
    config = VARIANTS["llama2"]
    params, tokens = draw_params(config, VOCAB_SIZE), draw_tokens(1, 24)
    segments = np.array([[1] * 8 + [2] * 16], np.int32)
    changed = tokens.at[:, :8].set((tokens[:, :8] + 1) % VOCAB_SIZE)
    first, second = (logits(params, config, x, segments_BL=segments)[:, 8:] for x in (tokens, changed))
    np.testing.assert_array_equal(first, second)


def test_gradients_do_not_depend_on_remat_and_fit_differences(quick_jit, draw_params):
    config = VARIANTS["grouped-tied-llama3"]
    params, tokens = draw_params(config, VOCAB_SIZE), draw_tokens(2, 12)

    def loss(params, config):
        log_probabilities = jax.nn.log_softmax(model.logits(params, config, tokens))
        return -jnp.take_along_axis(log_probabilities, tokens[..., None].astype(np.int32), -1).mean()

    gradient = quick_jit(jax.grad(loss), static_argnums=1)
    found = {
        remat: gradient(params, LlamaConfig(**{**vars(config), "remat": remat})) for remat in ("none", "dots", "layer")
    }
    for remat in ("dots", "layer"):
        jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-6), found["none"], found[remat])
    direction = draw_params(config, VOCAB_SIZE, seed=1)
    evaluate = quick_jit(loss, static_argnums=1)
    moved = [jax.tree.map(lambda p, d, s=step: p + s * d, params, direction) for step in (-1e-3, 1e-3)]
    difference = (evaluate(moved[1], config) - evaluate(moved[0], config)) / 2e-3
    slope = sum(jax.tree.leaves(jax.tree.map(lambda g, d: (g * d).sum(), found["none"], direction)))
    np.testing.assert_allclose(slope, difference, rtol=2e-3)


def test_init_is_a_function_of_the_key_with_the_stated_deviations(quick_jit):
    config = LlamaConfig(num_layers=3, dim=64, num_heads=4, norm="layer", qk_norm=True)
    init = quick_jit(lambda key: model.init_params(config, 128, key))
    params, again, other = init(jax.random.key(5)), init(jax.random.key(5)), init(jax.random.key(6))
    jax.tree.map(np.testing.assert_array_equal, params, again)
    assert not np.array_equal(params["layers"]["query"], other["layers"]["query"])
    assert not np.array_equal(params["layers"]["query"][0], params["layers"]["query"][1])
    cut = 0.9866  # deviation of a normal distribution cut at three deviations
    np.testing.assert_allclose(np.std(params["embedding"]), cut / 8, rtol=0.05)
    np.testing.assert_allclose(np.std(params["head"]), cut / 8, rtol=0.05)
    np.testing.assert_allclose(np.std(params["layers"]["up"]), cut / 8, rtol=0.05)
    for depth in range(3):
        deviation = cut / np.sqrt(config.hidden_width * 2 * (depth + 1))
        np.testing.assert_allclose(np.std(params["layers"]["down"][depth]), deviation, rtol=0.05)
    assert np.all(params["layers"]["query_norm"]["gain"] == 1)


def test_abstract_params_are_those_of_init_and_all_float32():
    config = VARIANTS["openlm"]
    params = jax.eval_shape(lambda: model.init_params(config, VOCAB_SIZE, jax.random.key(0)))
    abstract = model.abstract_params(config, VOCAB_SIZE)
    assert jax.tree.structure(params) == jax.tree.structure(abstract)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(abstract))
    assert type(abstract["layers"]["query_norm"]) is dict


def test_bfloat16_computes_hidden_states_in_bfloat16_near_float32(quick_jit, logits, draw_params):
    config = VARIANTS["llama2"]
    half = LlamaConfig(**{**vars(config), "dtype": "bfloat16"})
    params, tokens = draw_params(config, VOCAB_SIZE), draw_tokens(2, 24)
    hidden = quick_jit(model.hidden_states, static_argnames="config")
    exact, rounded = hidden(params, config, tokens), hidden(params, half, tokens)
    assert (exact.dtype, rounded.dtype) == (jnp.float32, jnp.bfloat16)
    np.testing.assert_allclose(rounded.astype(jnp.float32), exact, atol=0.05 * np.abs(exact).max())
    assert logits(params, half, tokens).dtype == jnp.float32


def test_tied_embeddings_are_their_own_head(draw_params):
    tied, untied = VARIANTS["grouped-tied-llama3"], VARIANTS["llama2"]
    params = draw_params(tied, VOCAB_SIZE)
    assert "head" not in params
    assert model.head_weights(params, tied) is params["embedding"]
    params = draw_params(untied, VOCAB_SIZE)
    assert model.head_weights(params, untied) is params["head"]
