"""Which part of a global batch a process holds, and how it gets onto its devices."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from dataservice import Bucket
from training.step import Recipe, batch_shapes, rate_shape

Block = tuple[slice, slice]


def process_block(sharding: NamedSharding, shape: tuple[int, int]) -> Block:
    """The rows and columns of a [rows, length] batch that this process's devices hold.

    Devices of a process are neighbours on the mesh, so what they hold is one rectangle.
    """
    indices = sharding.addressable_devices_indices_map(shape).values()
    bounds = [[index[axis].indices(shape[axis])[:2] for index in indices if index is not None] for axis in (0, 1)]
    rows, columns = (slice(min(low for low, _ in axis), max(high for _, high in axis)) for axis in bounds)
    return rows, columns


def block_of(recipe: Recipe, bucket: Bucket) -> Block:
    """The block of a bucket's batches that this process holds."""
    inputs = batch_shapes(recipe, bucket)["inputs"]
    assert isinstance(inputs.sharding, NamedSharding)
    rows, length = inputs.shape
    return process_block(inputs.sharding, (rows, length))


def place_batch(batch: Mapping[str, Any], shapes: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, jax.Array]:
    """Put this process's block of a batch onto its devices, as parts of the global arrays of `shapes`.

    With several processes jax takes it for an implicit one.
    """
    with jax.transfer_guard("allow"):
        return {
            name: jax.make_array_from_process_local_data(shape.sharding, batch[name], shape.shape)
            for name, shape in shapes.items()
        }


def place_step(
    recipe: Recipe, bucket: Bucket, batch: Mapping[str, Any], step: int
) -> tuple[dict[str, jax.Array], jax.Array]:
    """What a train step is given beside the state: the batch, and the learning rate of the step, counted from 0.

    The one transfer that a step needs.
    """
    rate = np.float32(recipe.learning_rate(step) * recipe.optimizer_config.rate_factor(bucket.length))
    placed = place_batch(
        {**batch, "rate": np.asarray(rate)}, batch_shapes(recipe, bucket) | {"rate": rate_shape(recipe)}
    )
    return placed, placed.pop("rate")
