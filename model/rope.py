"""Rotary position embedding (https://arxiv.org/abs/2104.09864), halves rotated as in Hugging Face Llama.

Axes: B rows, L length, N heads, H head dim.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from model.config import LlamaConfig


class Rotation(NamedTuple):
    """Cosines and sines, float32 [B or 1, L, H / 2]: one angle for each pair of channels (i, i + H / 2)."""

    cosines: jax.Array
    sines: jax.Array


def frequencies(config: LlamaConfig) -> np.ndarray:
    """Radians a position, float64 [H / 2], after the scaling that the config names."""
    exponents = np.arange(0, config.head_width, 2) / config.head_width
    angular = config.rope_base**-exponents
    if config.rope_scaling == "linear":
        return angular / config.rope_factor
    if config.rope_scaling == "llama3":
        return _stretch_low_frequencies(angular, config)
    return angular


def _stretch_low_frequencies(angular: np.ndarray, config: LlamaConfig) -> np.ndarray:
    """Llama 3.1: keep short wavelengths, divide long ones by rope_factor, blend linearly in turns between."""
    turns = config.rope_original_length * angular / (2 * math.pi)
    low, high = config.rope_low_frequency_factor, config.rope_high_frequency_factor
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return angular * (kept + (1 - kept) / config.rope_factor)


def rotation(config: LlamaConfig, positions: Int[Array, "B L"]) -> Rotation:
    """The rotation of every position."""
    angles = positions.astype(jnp.float32)[..., None] * jnp.asarray(frequencies(config), jnp.float32)
    return Rotation(jnp.cos(angles), jnp.sin(angles))


def rotate(x_BLNH: Float[Array, "B L N H"], turn: Rotation) -> Float[Array, "B L N H"]:
    """Turn each pair of channels (i, i + H / 2) by its position's angle, in float32; returns the dtype of x."""
    cosines, sines = turn.cosines[:, :, None, :], turn.sines[:, :, None, :]
    first, second = jnp.split(x_BLNH.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate([first * cosines - second * sines, second * cosines + first * sines], axis=-1)
    return turned.astype(x_BLNH.dtype)


def segment_positions(segments_BL: Int[Array, "B L"]) -> Int[Array, "B L"]:
    """Positions that restart at every segment: [1, 1, 1, 2, 2, 0] -> [0, 1, 2, 0, 1, 0]."""
    index = jnp.arange(segments_BL.shape[1], dtype=jnp.int32)
    changed = segments_BL[:, 1:] != segments_BL[:, :-1]
    starts = jnp.pad(jnp.where(changed, index[1:], 0), ((0, 0), (1, 0)))
    return index - jax.lax.cummax(starts, axis=1)
