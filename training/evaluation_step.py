"""The evaluation step: losses by position, a pure function of a plain dict of arrays, one executable a bucket shape."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from model.rope import segment_positions
from training.step import Arrays, Recipe, loss_sums, target_weights

__all__ = ["make_evaluation_step", "position_starts", "position_weights"]


def position_starts(length: int) -> np.ndarray:
    """int[P]: first positions of the stretches that losses are told apart by.

    >>> position_starts(8)
    array([0, 1, 2, 4])
    """
    return np.array([0] + [2**digit for digit in range((length - 1).bit_length())])


def position_weights(batch: Arrays) -> jax.Array:
    """[B, L, P] float32: the weights of the targets, each in the column of its position within its sequence."""
    length = batch["targets"].shape[1]
    starts_P = position_starts(length)
    segments_BL = batch.get("segments")
    positions = jnp.arange(length)[None] if segments_BL is None else segment_positions(segments_BL)
    column_BL = jnp.sum(positions[..., None] >= starts_P, axis=-1) - 1
    in_column_BLP = column_BL[..., None] == np.arange(len(starts_P))
    return jnp.where(in_column_BLP, target_weights(batch)[..., None], 0.0)


def make_evaluation_step(recipe: Recipe) -> Callable[[Any, Arrays, jax.Array], dict[str, jax.Array]]:
    """(params, batch, token_lengths int32[V]) -> sums over the batch's real targets.

    nll (nats) and count, float32[P], by the stretches of `position_starts`; bytes, int32.
    """

    def evaluation_step(params: Any, batch: Arrays, token_lengths_V: jax.Array) -> dict[str, jax.Array]:
        sums = loss_sums(params, batch, recipe, position_weights(batch))
        lengths_BL = token_lengths_V[batch["targets"].astype(jnp.int32)]
        real_bytes = jnp.sum(jnp.where(target_weights(batch) > 0, lengths_BL, 0))
        return {"nll": sums.nll, "count": sums.count, "bytes": real_bytes}

    return evaluation_step
