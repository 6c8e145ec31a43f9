"""Steps in several passes: the gradients of groups of a batch's rows, summed in float32."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import model

__all__ = ["microbatch_count", "split_rows", "sum_over"]

T = TypeVar("T")


def microbatch_count(mesh: Mesh, rows: int, length: int, microbatch_tokens: int) -> int:
    """In how many equal passes a [rows, length] batch goes through the model.

    The smallest power of two that leaves at most `microbatch_tokens` (0: all) in a pass; where there are fewer rows,
    as many as every device can take a row of.
    """
    rows_of_device, count = rows // _row_shards(model.batch_spec(mesh, rows, length), mesh), 1
    while microbatch_tokens and rows * length // count > microbatch_tokens and rows_of_device % (2 * count) == 0:
        count *= 2
    return count


def split_rows(batch: dict[str, jax.Array], count: int, mesh: Mesh) -> dict[str, jax.Array]:
    """Give every array [rows, ...] of a batch a first axis of `count` microbatches, each with its share of every
    device's own rows, so that no row travels.
    """
    rows, length = batch["inputs"].shape
    spec = model.batch_spec(mesh, rows, length)
    shards = _row_shards(spec, mesh)

    def split(x: jax.Array) -> jax.Array:
        # [shards, count, rows of a device and microbatch, ...]
        x = x.reshape(shards, count, -1, *x.shape[1:]).swapaxes(0, 1)
        x = x.reshape(count, rows // count, *x.shape[3:])
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(None, *spec[: x.ndim - 1])))

    return jax.tree.map(split, batch)


def sum_over(function: Callable[[dict[str, jax.Array]], T], batches: dict[str, jax.Array], shardings: Any) -> T:
    """Sum a function's tree of arrays over the first axis of its argument, one after another; the sum lies as told."""
    first = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), batches)

    def place(total: T) -> T:
        return jax.lax.with_sharding_constraint(total, shardings)

    def add(total: T, batch: dict[str, jax.Array]) -> tuple[T, None]:
        return place(jax.tree.map(jnp.add, total, function(batch))), None

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(function, first))
    return jax.lax.scan(add, place(zeros), batches)[0]


def _row_shards(spec: PartitionSpec, mesh: Mesh) -> int:
    """Over how many groups of devices the rows are split."""
    axes = spec[0] or ()
    return math.prod(mesh.shape[name] for name in ((axes,) if isinstance(axes, str) else axes))
