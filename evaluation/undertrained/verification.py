"""Whether a model can say a token when a prompt asks for nothing else.

What prompts share is read once; then many tokens go on from a copy of its keys and values, a batch at a time.
Axes: B rows, L tokens of what is shared, E tokens of the ending, V vocabulary.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from evaluation.subject import Subject
from evaluation.undertrained.prompts import NUM_STEPS, Prompt
from model import LlamaConfig
from model.functions import project_logits
from model.generation import Cache, empty_cache, extend
from tokenizer.progress import Progress

__all__ = ["probabilities_to_repeat"]

MOST_ROWS = 64
CACHE_BYTES = 256 << 20
"""Keys and values of a batch, unless one row has more."""


def probabilities_to_repeat(
    subject: Subject, tokens: Sequence[int] | np.ndarray, prompts: Sequence[Prompt], progress: Progress | None = None
) -> np.ndarray:
    """Probability of each token at every place after its prompts, where the model goes on greedily.

    Args:
        subject: The model.
        tokens: Ids, n of them.
        prompts: As `make_prompts` makes them.
        progress: Called as progress("ask for tokens", tokens asked for, all).

    Returns:
        float32[n, prompts, NUM_STEPS].
    """
    tokens = np.asarray(tokens, np.int32)
    found = np.zeros((len(tokens), len(prompts), NUM_STEPS), np.float32)
    if not len(tokens):
        return found
    endings = max(len(prompt.ending) for prompt in prompts)
    length = _power_of_two(max(len(prompt.shared) for prompt in prompts))
    capacity = _power_of_two(length + endings + NUM_STEPS)
    rows = min(_rows(subject.config, capacity), _power_of_two(len(tokens)))
    # Given to the compiled functions: as constants, XLA would work out all masks made of them when it compiles.
    starts_B = np.zeros(rows, np.int32)
    done, total = 0, len(tokens) * len(prompts)
    for column, prompt in enumerate(prompts):
        shared_L = np.zeros((1, length), np.int32)
        shared_L[0, : len(prompt.shared)] = prompt.shared
        cache = _read(subject.params, subject.config, empty_cache(subject.config, 1, capacity), shared_L, starts_B[:1])
        for first in range(0, len(tokens), rows):
            asked_B = np.resize(tokens[first : first + rows], rows)
            ending_BE = np.zeros((rows, endings), np.int32)
            for place, number in enumerate(prompt.ending):
                ending_BE[:, place] = asked_B if number is None else number
            sizes = np.int32(len(prompt.shared)), np.int32(len(prompt.ending))
            got = _go_on(subject.params, subject.config, cache, ending_BE, asked_B, starts_B, *sizes)
            kept = len(tokens[first : first + rows])
            found[first : first + kept, column] = np.asarray(got)[:kept]
            done += kept
            if progress:
                progress("ask for tokens", done, total)
    return found


def _rows(config: LlamaConfig, capacity: int) -> int:
    """Rows of a batch, a power of two: their keys and values in float32 fit into CACHE_BYTES."""
    row_bytes = 8 * config.num_layers * capacity * config.kv_heads * config.head_width
    return 1 << (max(1, min(MOST_ROWS, CACHE_BYTES // row_bytes)).bit_length() - 1)


def _power_of_two(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


@functools.partial(jax.jit, static_argnames="config", donate_argnames="cache")
def _read(
    params: Any, config: LlamaConfig, cache: Cache, shared_BL: Int[Array, "B L"], starts_B: Int[Array, " B"]
) -> Cache:
    """Keys and values of what is shared, from place 0 on; what pads it lies where the endings will be written."""
    return extend(params, config, cache, shared_BL, starts_B, jnp.int32(0))[1]


@functools.partial(jax.jit, static_argnames="config")
def _go_on(
    params: Any,
    config: LlamaConfig,
    cache: Cache,
    ending_BE: Int[Array, "B E"],
    asked_B: Int[Array, " B"],
    starts_B: Int[Array, " B"],
    first: Int[Array, ""],
    size: Int[Array, ""],
) -> Float[Array, "B steps"]:
    """Probability of asked_B at each of NUM_STEPS greedy steps after the first `size` tokens of an ending.

    The cache has one row, which all begin with; the ending is written to places first, first + 1, ...
    """
    rows = len(asked_B)
    own = jax.tree.map(lambda array: jnp.broadcast_to(array, (array.shape[0], rows, *array.shape[2:])), cache)
    h_BED, own = extend(params, config, own, ending_BE, starts_B, first)
    h_BD = jax.lax.dynamic_index_in_dim(h_BED, size - 1, axis=1, keepdims=False)

    def step(carry: tuple[jax.Array, Cache], number: jax.Array) -> tuple[tuple[jax.Array, Cache], jax.Array]:
        h_BD, own = carry
        log_probs_BV = jax.nn.log_softmax(project_logits(params, config, h_BD))
        asked_for_B = jnp.take_along_axis(log_probs_BV, asked_B[:, None], axis=-1)[:, 0]
        likeliest_B = jnp.argmax(log_probs_BV, axis=-1).astype(jnp.int32)
        h_B1D, own = extend(params, config, own, likeliest_B[:, None], starts_B, first + size + number)
        return (h_B1D[:, 0], own), jnp.exp(asked_for_B)

    _, found = jax.lax.scan(step, (h_BD, own), jnp.arange(NUM_STEPS, dtype=jnp.int32))
    return found.T
