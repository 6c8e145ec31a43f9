"""The dyadic mesh: one axis per factor of the device count; rows take the first axes, the sequence the rest.

Bucket k has tokens_per_step / 2^k rows. When that is fewer than the devices, the remaining factors shard the sequence,
so short buckets are purely data parallel, long ones split their rows, and one parameter sharding serves them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from model.errors import ModelError


def make_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh over `devices` (default: all) with Auto axes "d0", "d1", ..., one per prime factor, odd ones first.

    8 devices make axes of 2, 2, 2; 12 make 3, 2, 2; one device makes one axis of 1.
    """
    devices = jax.devices() if devices is None else list(devices)
    factors = _prime_factors(len(devices)) or [1]
    names = tuple(f"d{index}" for index in range(len(factors)))
    return Mesh(np.array(devices).reshape(factors), names, axis_types=(AxisType.Auto,) * len(factors))


def _prime_factors(count: int) -> list[int]:
    """Prime factors, largest first: odd ones can divide rows only, never a length that is a power of two."""
    factors, divisor = [], 2
    while count > 1:
        while count % divisor == 0:
            factors.append(divisor)
            count //= divisor
        divisor += 1
    return factors[::-1]


def batch_spec(mesh: Mesh | AbstractMesh, rows: int, length: int) -> PartitionSpec:
    """How a [rows, length] batch lies on the mesh: rows over the first axes while they divide, length over the rest.

    Raises ModelError when the rest does not divide the length.
    """
    names, local_rows = list(mesh.axis_names), rows
    row_axes: list[str] = []
    while names and local_rows % mesh.shape[names[0]] == 0:
        local_rows //= mesh.shape[names[0]]
        row_axes.append(names.pop(0))
    remaining = int(np.prod([mesh.shape[name] for name in names]))
    if length % remaining:
        raise ModelError(
            f"devices must divide a batch of {rows} rows x {length} tokens, got {mesh.size}; use a power of two of "
            "devices, or a tokens_per_step that they divide"
        )
    return PartitionSpec(tuple(row_axes) or None, tuple(names) or None)


def param_shardings(params: Any, mesh: Mesh | AbstractMesh) -> Any:
    """A tree of NamedSharding: each parameter over all axes on its last dimension that divides, else replicated.

    `params` is a tree of anything with a shape, so optimizer state works as well.
    """

    def shard(leaf: Any) -> NamedSharding:
        for axis in reversed(range(len(leaf.shape))):
            if mesh.size > 1 and leaf.shape[axis] and leaf.shape[axis] % mesh.size == 0:
                return NamedSharding(mesh, PartitionSpec(*[None] * axis, mesh.axis_names))
        return NamedSharding(mesh, PartitionSpec())

    return jax.tree.map(shard, params)


@dataclass(frozen=True)
class Layout:
    """Where activations lie: a mesh and the [rows, length] spec of the batch. Without a mesh nothing is constrained."""

    mesh: Mesh | None = None
    spec: PartitionSpec | None = None

    def __post_init__(self) -> None:
        if self.mesh is not None and self.spec is None:
            raise ModelError("spec must be given with a mesh, got None; use model.batch_spec(mesh, rows, length)")

    @property
    def is_sharded(self) -> bool:
        """Whether more than one device takes part."""
        return self.mesh is not None and self.mesh.size > 1

    @property
    def row_axes(self) -> tuple[str, ...]:
        """Mesh axes over which rows are split."""
        return _axes(self.spec, 0)

    @property
    def sequence_axes(self) -> tuple[str, ...]:
        """Mesh axes over which the sequence is split."""
        return _axes(self.spec, 1)

    def activations(self, x: jax.Array) -> jax.Array:
        """Constrain [rows, length, ...] to the batch's own sharding."""
        return self._constrain(x, PartitionSpec(*(self.spec or ())))

    def gathered(self, weight: jax.Array) -> jax.Array:
        """The whole of a parameter on every device (FSDP gathers it where it is used)."""
        return self._constrain(weight, PartitionSpec())

    def _constrain(self, x: jax.Array, spec: PartitionSpec) -> jax.Array:
        if self.mesh is None or self.mesh.size == 1:
            return x
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, spec))


LOCAL = Layout()
"""One device: nothing is constrained."""


def _axes(spec: PartitionSpec | None, index: int) -> tuple[str, ...]:
    if spec is None or len(spec) <= index or spec[index] is None:
        return ()
    axes = spec[index]
    return (axes,) if isinstance(axes, str) else tuple(axes)
