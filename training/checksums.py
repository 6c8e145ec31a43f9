"""Sums of a checkpoint's bits, saved beside them: orbax writes arrays without any, and a flipped bit reads as a number.

A sum of an array's bits modulo 2^32 is exact and the same in any order, so it depends on no mesh and no number of
processes; each device sums what it holds.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["differing", "first_not_finite", "sum_arrays", "sum_values"]


def sum_arrays(tree: Any) -> dict[str, int]:
    """{path of an array, such as params.embedding: sum of its bits}, the same on every process."""
    leaves = jax.tree.leaves_with_path(tree)
    sums = jax.device_get(_sum_bits([leaf for _, leaf in leaves]))
    return {_name(path): int(value) for (path, _), value in zip(leaves, sums, strict=True)}


def sum_values(values: Mapping[str, Any]) -> int:
    """The CRC-32 of plain values, however they are written."""
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())


def differing(saved: Mapping[str, int], now: Mapping[str, int]) -> str | None:
    """The first name whose sum is not the saved one, or None."""
    return next((name for name, value in now.items() if saved.get(name) != value), None)


def first_not_finite(tree: Any) -> str | None:
    """The path of the first array that has a value which is not finite, or None."""
    leaves = jax.tree.leaves_with_path(tree)
    finite = jax.device_get(_are_finite([leaf for _, leaf in leaves]))
    return next((_name(path) for (path, _), is_finite in zip(leaves, finite, strict=True) if not is_finite), None)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


@jax.jit
def _sum_bits(leaves: list[jax.Array]) -> list[jax.Array]:
    """The uint32 sum of each array's bits, in words of its items' width and at most 32 bits."""
    return [jnp.sum(_words(leaf).astype(jnp.uint32), dtype=jnp.uint32) for leaf in leaves]


@jax.jit
def _are_finite(leaves: list[jax.Array]) -> list[jax.Array]:
    return [jnp.isfinite(leaf).all() for leaf in leaves]


def _words(leaf: jax.Array) -> jax.Array:
    if leaf.dtype == jnp.bool_:
        return leaf
    width = min(leaf.dtype.itemsize, 4)
    return jax.lax.bitcast_convert_type(leaf, np.dtype(f"uint{8 * width}"))
