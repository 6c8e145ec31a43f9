"""An exponential moving average of the weights."""

import math
from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

__all__ = ["follow"]


def follow(average: Any, params: Any, updates: Int[Array, ""], decay: float) -> Any:
    """The average after one more update, float32.

    After t updates it is sum_i decay^(t - i) params_i / sum_i decay^(t - i), i = 1 .. t: a weighted mean at every time,
    in which what stood there before the first update has no part (the bias correction of Adam, made as one goes).

    Args:
        average: That of the updates before.
        params: The parameters after this update.
        updates: t, this one included.
        decay: Between 0 and 1.
    """
    return optax.incremental_update(params, average, _share(updates, decay))


def _share(updates: Int[Array, ""], decay: float) -> Float[Array, ""]:
    """(1 - decay) / (1 - decay^t); by expm1, since 1 - 0.9999 in float32 has three digits."""
    log = jnp.float32(math.log(decay))
    return jnp.expm1(log) / jnp.expm1(updates.astype(jnp.float32) * log)
