"""Gain-only normalisation over the last axis, computed in float32."""

import flax.nnx as nnx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from model.config import LlamaConfig


class Norm(nnx.Module):
    """RMSNorm (config.norm "rms") or LayerNorm without a bias ("layer"), with one gain per channel."""

    def __init__(self, config: LlamaConfig, width: int):
        self.gain = nnx.Param(jnp.ones(width, jnp.float32))
        self.centred = config.norm == "layer"
        self.epsilon = config.norm_epsilon

    def __call__(self, x: Float[Array, "*axes D"]) -> Float[Array, "*axes D"]:
        """Normalise the last axis; returns the dtype of x."""
        y = x.astype(jnp.float32)
        if self.centred:
            y = y - y.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + self.epsilon)
        return (y * scale * self.gain[...]).astype(x.dtype)
