"""Choosing the next token from logits: temperature, top-k and top-p.

Axes: B rows, V vocabulary.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from model.errors import ModelError


class Sampling(NamedTuple):
    """How to choose: numbers that a compiled step takes as inputs, so that changing them compiles nothing."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def check(self) -> "Sampling":
        """Itself, each value in its own type (0 and 0.0 would compile twice), or ModelError naming a bad one."""
        if not self.temperature >= 0:
            raise ModelError(f"temperature must be 0 (greedy) or more, got {self.temperature}; 1 samples as trained")
        if self.top_k < 0:
            raise ModelError(
                f"top_k must be 0 (all tokens) or more, got {self.top_k}; set how many tokens may be drawn"
            )
        if not 0 < self.top_p <= 1:
            raise ModelError(f"top_p must be above 0 and at most 1, got {self.top_p}; 1 leaves no token out")
        return Sampling(float(self.temperature), int(self.top_k), float(self.top_p))


def sample(logits_BV: Float[Array, "B V"], sampling: Sampling, keys_B: jax.Array) -> Int[Array, " B"]:
    """Draw one token a row, each by its own key.

    Temperature 0 takes the likeliest. Else only the `top_k` likeliest (0: all) and of these, by their probabilities
    among all tokens, the fewest whose sum reaches `top_p` may be drawn; equal logits rank by id.
    """
    order_BV = jnp.argsort(-logits_BV, axis=-1, stable=True)
    ranked_BV = jnp.take_along_axis(logits_BV, order_BV, axis=-1) / jnp.maximum(sampling.temperature, 1e-6)
    probabilities_BV = jax.nn.softmax(ranked_BV, axis=-1)
    before_BV = jnp.cumsum(probabilities_BV, axis=-1) - probabilities_BV
    ranks = jnp.arange(logits_BV.shape[-1])
    allowed = (before_BV < sampling.top_p) & ((sampling.top_k == 0) | (ranks < sampling.top_k)) | (ranks == 0)
    drawn_B = jax.vmap(jax.random.categorical)(keys_B, jnp.where(allowed, ranked_BV, -jnp.inf))
    drawn_B = jnp.where(sampling.temperature == 0, 0, drawn_B)
    return jnp.take_along_axis(order_BV, drawn_B[:, None], axis=-1)[:, 0]
