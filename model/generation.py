"""Text generation, a token at a time, with keys and values cached.

Rows, prompts and caches are padded to powers of two, so that a few compiled steps serve every batch of prompts.
The prompts of a batch end at the same place of the cache: what stands before a shorter one is in another segment.
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
from model.functions import Params, merge, project_logits
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
    for drawn_B in _draw(params, config, [prompt_ids], max_new_tokens, sampling, [seed]):
        token = int(drawn_B[0])
        yield token
        if token in stop_ids:
            return


def generate_batch(
    params: Params,
    config: LlamaConfig,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    sampling: Sampling = Sampling(),  # noqa: B008 (an immutable tuple)
    *,
    seeds: Sequence[int],
    stop_ids: Collection[int] = (),
) -> list[list[int]]:
    """The tokens that follow each of several prompts of any lengths: those of `generate` for it alone with its seed."""
    if not prompts:
        return []
    assert len(seeds) == len(prompts)
    drawn: list[list[int]] = [[] for _ in prompts]
    running = set(range(len(prompts)))
    for drawn_B in _draw(params, config, prompts, max_new_tokens, sampling, seeds):
        for row in running:
            drawn[row].append(int(drawn_B[row]))
        running = {row for row in running if drawn[row][-1] not in stop_ids}
        if not running:
            break
    return drawn


def _draw(
    params: Params,
    config: LlamaConfig,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    sampling: Sampling,
    seeds: Sequence[int],
) -> Iterator[np.ndarray]:
    """Yield the next token of every row [B], max_new_tokens times; the rows after those of the prompts mean nothing."""
    tokens_BL, starts_B, end = _align([_check_prompt(ids, params["embedding"].shape[0]) for ids in prompts])
    sampling = sampling.check()
    keys_B = jnp.stack([jax.random.key(seed) for seed in seeds] + [jax.random.key(0)] * (len(starts_B) - len(seeds)))
    capacity = max(tokens_BL.shape[1], _power_of_two(end + max_new_tokens))
    cache = empty_cache(config, len(starts_B), capacity)
    first, last = 0, end - 1
    for place in range(end, end + max_new_tokens):
        drawn_B, cache = _extend_and_sample(params, config, cache, tokens_BL, starts_B, first, last, sampling, keys_B)
        yield np.asarray(drawn_B)
        tokens_BL, first, last = drawn_B[:, None], place, 0


def _align(prompts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, int]:
    """Tokens [B, L] with all prompts ending at one place, where each starts, and that end.

    Rows and length are powers of two; rows that only fill the batch are prompts of one token.
    >>> _align([[7, 8, 9], [5]])[:2]
    (array([[7, 8, 9, 0], [0, 0, 5, 0]]), array([0, 2]))
    """
    end = max(map(len, prompts))
    tokens_BL = np.zeros((_power_of_two(len(prompts)), _power_of_two(end)), np.int32)
    starts_B = np.full(len(tokens_BL), end - 1, np.int32)
    for row, prompt in enumerate(prompts):
        starts_B[row] = end - len(prompt)
        tokens_BL[row, starts_B[row] : end] = prompt
    return tokens_BL, starts_B, end


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
    starts_B: Int[Array, " B"],
    first: Int[Array, ""],
    last: Int[Array, ""],
    sampling: Sampling,
    keys_B: jax.Array,
) -> tuple[Int[Array, " B"], Cache]:
    """Append tokens and draw the one that follows tokens[:, last]; a row's draw depends on its key and position."""
    h_BLD, cache = extend(params, config, cache, tokens_BL, starts_B, first)
    h_BD = jax.lax.dynamic_index_in_dim(h_BLD, last, axis=1, keepdims=False)
    keys_B = jax.vmap(jax.random.fold_in)(keys_B, first + last + 1 - starts_B)
    return sample(project_logits(params, config, h_BD), sampling, keys_B), cache


def extend(
    params: Params,
    config: LlamaConfig,
    cache: Cache,
    tokens_BL: Int[Array, "B L"],
    starts_B: Int[Array, " B"],
    first: Int[Array, ""],
) -> tuple[Float[Array, "B L D"], Cache]:
    """Hidden states of tokens at places first, first + 1, ... of the cache, and the cache with their keys and values.

    A row begins at its place in `starts_B`, and sees nothing before it. Places after a query's own are never looked
    at either, so padding may stand on both sides.
    """
    model = merge(params, config)
    places_L, starts_B1 = first + jnp.arange(tokens_BL.shape[1]), starts_B[:, None]
    turn = rotation(config, places_L - starts_B1)
    sides_BL, sides_BS = ((places >= starts_B1) for places in (places_L, jnp.arange(cache.keys.shape[2])))
    graph, stacked = nnx.split(model.layers)

    def apply_layer(h_BLD: jax.Array, layer: tuple[nnx.State, Cache]) -> tuple[jax.Array, Cache]:
        weights, (keys, values) = layer
        block = nnx.merge(graph, compute_weights(weights, h_BLD.dtype, LOCAL))
        q, k, v = block.project(h_BLD, turn, LOCAL)
        keys = jax.lax.dynamic_update_slice_in_dim(keys, k, first, axis=1)
        values = jax.lax.dynamic_update_slice_in_dim(values, v, first, axis=1)
        attended = attend_chunked(q, keys, values, sides_BL, sides_BS, first=first, window=config.sliding_window)
        return block.finish(h_BLD, attended, LOCAL), Cache(keys, values)

    h_BLD, cache = jax.lax.scan(apply_layer, model.embed(tokens_BL, LOCAL), (stacked, cache))
    return model.final_norm(h_BLD), cache
