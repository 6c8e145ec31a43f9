import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import pytest

import model
from model import PRESETS, LlamaConfig

# vocabulary, published number of parameters
PUBLISHED = {
    "openlm-160m": (50_432, 162_435_840),
    "openlm-410m": (50_432, 411_665_408),
    "openlm-1b": (50_432, 1_439_893_504),
    "openlm-3b": (50_432, 2_796_096_000),
    "openlm-7b": (50_432, 6_889_672_704),
    "llama-3.2-1b": (128_256, 1_235_814_400),
    "llama-3.1-8b": (128_256, 8_030_261_248),
}


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_are_the_published_number_and_those_of_the_arrays(name):
    vocab_size, published = PUBLISHED.get(name, (32_768, 95_960_832))
    arrays = jax.tree.leaves(model.abstract_params(PRESETS[name], vocab_size))
    assert model.count_params(PRESETS[name], vocab_size) == published
    assert sum(math.prod(array.shape) for array in arrays) == published


def count_product_flops(jaxpr):
    """Two for every multiply-add of a matrix product, loops by their length."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            depth = math.prod(shape[axis] for axis in contracted)
            total += 2 * math.prod(equation.outvars[0].aval.shape) * depth
        inner = [leaf for leaf in jax.tree.leaves(equation.params, is_leaf=_is_jaxpr) if _is_jaxpr(leaf)]
        repeats = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        total += repeats * sum(count_product_flops(getattr(leaf, "jaxpr", leaf)) for leaf in inner)
    return total


def _is_jaxpr(leaf):
    return hasattr(leaf, "eqns") or hasattr(getattr(leaf, "jaxpr", None), "eqns")


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(num_layers=3, dim=64, num_heads=4),
        LlamaConfig(num_layers=2, dim=64, num_heads=4, num_kv_heads=2, head_dim=32, tied_embeddings=True),
    ],
)
def test_flops_are_three_times_those_of_the_forward_products(config):
    rows, length, vocab_size = 2, 32, 96
    params = model.abstract_params(config, vocab_size)
    tokens = jax.ShapeDtypeStruct((rows, length), jnp.int32)
    forward = jax.make_jaxpr(functools.partial(model.logits, config=config))(params, tokens_BL=tokens)
    # One band of queries sees all keys: the mean context of a causal row of length 2 L - 1.
    expected = model.flops_per_token(config, vocab_size, 2 * length - 1) * rows * length
    assert 3 * count_product_flops(forward.jaxpr) == expected


def test_flops_grow_with_the_mean_causal_context():
    config = LlamaConfig(num_layers=2, dim=64, num_heads=4)
    short, long = (model.flops_per_token(config, 96, length) for length in (1, 1025))
    assert long - short == 6 * 2 * 2 * 512 * 64


@pytest.mark.parametrize("window", [1, 3, 7, 8, 100])
def test_flops_count_the_keys_within_the_window(window):
    everywhere = LlamaConfig(num_layers=2, dim=64, num_heads=4)
    found, whole = (
        model.flops_per_token(config, 96, 8)
        for config in (dataclasses.replace(everywhere, sliding_window=window), everywhere)
    )
    seen = [min(position + 1, window) for position in range(8)]
    assert whole - found == 6 * 2 * 2 * (36 - sum(seen)) / 8 * 64
