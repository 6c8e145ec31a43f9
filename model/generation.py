"""Text generation, a token at a time, with keys and values cached.

Prompts and caches are padded to powers of two, so that a few compiled steps serve every prompt.
Axes: B rows, L new tokens, S cache places, K key/value heads, H head dim, D model.
"""

import functools
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import flax.nnx as nnx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from model.chunked import attend_chunked
from model.config import LlamaConfig
from model.errors import ModelError
from model.functions import Params, head_weights, merge
from model.llama import compute_dtype, compute_weights
from model.rope import rotation
from model.sampling import Sampling, sample
from model.sharding import LOCAL


class Cache(NamedTuple):
    """Keys and values of every layer, [layers, B, S, K, H] in the compute dtype."""

    keys: jax.Array
    values: jax.Array


def generate(
    params: Params,
    config: LlamaConfig,
    prompt_ids: Sequence[int],
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    stop_ids: Collection[int] = (),
) -> list[int]:
    """The tokens that follow the prompt, a stop token (the last, if one is drawn) included.

    The same seed gives the same tokens; temperature 0 takes the likeliest. Raises ModelError for an empty prompt or
    ids outside the vocabulary.
    """
    sampling = Sampling(temperature, top_k, top_p)
    return list(stream(params, config, prompt_ids, max_new_tokens, sampling, seed=seed, stop_ids=stop_ids))


def stream(
    params: Params,
    config: LlamaConfig,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    sampling: Sampling = Sampling(),  # noqa: B008 (an immutable tuple)
    *,
    seed: int = 0,
    stop_ids: Collection[int] = (),
) -> Iterator[int]:
    """As `generate`, each token as soon as it is drawn."""
    prompt = _check_prompt(prompt_ids, params["embedding"].shape[0])
    sampling = sampling.check()
    padded = _power_of_two(len(prompt))
    cache = empty_cache(config, 1, max(padded, _power_of_two(len(prompt) + max_new_tokens)))
    tokens = np.zeros((1, padded), np.int32)
    tokens[0, : len(prompt)] = prompt
    first, last = 0, len(prompt) - 1
    for position in range(len(prompt), len(prompt) + max_new_tokens):
        key = jax.random.fold_in(jax.random.key(seed), position)
        drawn, cache = _extend_and_sample(params, config, cache, tokens, first, last, sampling, key)
        token = int(drawn[0])
        yield token
        if token in stop_ids:
            return
        tokens, first, last = np.full((1, 1), token, np.int32), position, 0


def _check_prompt(prompt_ids: Sequence[int], vocab_size: int) -> np.ndarray:
    prompt = np.asarray(prompt_ids, np.int64)
    if prompt.ndim != 1 or not prompt.size:
        raise ModelError(f"prompt must be a list of one token or more, got {prompt_ids!r}; begin with <eod>")
    outside = prompt[(prompt < 0) | (prompt >= vocab_size)]
    if outside.size:
        raise ModelError(
            f"prompt ids must be below the vocabulary size {vocab_size}, got {outside[0]}; encode it "
            "with the model's own tokenizer"
        )
    return prompt


def _power_of_two(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


def empty_cache(config: LlamaConfig, num_rows: int, capacity: int) -> Cache:
    """A cache for `capacity` tokens a row."""
    shape = (config.num_layers, num_rows, capacity, config.kv_heads, config.head_width)
    return Cache(jnp.zeros(shape, compute_dtype(config)), jnp.zeros(shape, compute_dtype(config)))


@functools.partial(jax.jit, static_argnames="config", donate_argnames="cache")
def _extend_and_sample(
    params: Params,
    config: LlamaConfig,
    cache: Cache,
    tokens_BL: Int[Array, "B L"],
    first: Int[Array, ""],
    last: Int[Array, ""],
    sampling: Sampling,
    key: jax.Array,
) -> tuple[Int[Array, " B"], Cache]:
    """Append tokens and draw the one that follows tokens[:, last]."""
    h_BLD, cache = extend(params, config, cache, tokens_BL, first)
    h_BD = jax.lax.dynamic_index_in_dim(h_BLD, last, axis=1, keepdims=False)
    head_VD = head_weights(params, config).astype(h_BD.dtype)
    logits_BV = jnp.einsum("BD,VD->BV", h_BD, head_VD, preferred_element_type=jnp.float32)
    return sample(logits_BV, sampling, key), cache


def extend(
    params: Params, config: LlamaConfig, cache: Cache, tokens_BL: Int[Array, "B L"], first: Int[Array, ""]
) -> tuple[Float[Array, "B L D"], Cache]:
    """Hidden states of tokens at positions first, first + 1, ..., and the cache with their keys and values.

    Places of the cache after a query's own position are never looked at, so padding may follow the tokens.
    """
    model = merge(params, config)
    turn = rotation(config, first + jnp.arange(tokens_BL.shape[1])[None])
    graph, stacked = nnx.split(model.layers)

    def apply_layer(h_BLD: jax.Array, layer: tuple[nnx.State, Cache]) -> tuple[jax.Array, Cache]:
        weights, (keys, values) = layer
        block = nnx.merge(graph, compute_weights(weights, h_BLD.dtype, LOCAL))
        q, k, v = block.project(h_BLD, turn, LOCAL)
        keys = jax.lax.dynamic_update_slice_in_dim(keys, k, first, axis=1)
        values = jax.lax.dynamic_update_slice_in_dim(values, v, first, axis=1)
        return block.finish(h_BLD, attend_chunked(q, keys, values, first=first), LOCAL), Cache(keys, values)

    h_BLD, cache = jax.lax.scan(apply_layer, model.embed(tokens_BL, LOCAL), (stacked, cache))
    return model.final_norm(h_BLD), cache
