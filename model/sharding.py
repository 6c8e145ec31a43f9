"""The dyadic mesh: one axis per factor of the device count; rows take the first axes, the sequence the rest.

Bucket k has tokens_per_step / 2^k rows. When that is fewer than the devices, the remaining factors shard the sequence,
so short buckets are purely data parallel, long ones split their rows, and one parameter sharding serves them all.
On request a last axis splits each layer's heads and hidden width, and the vocabulary, as in Megatron
(https://arxiv.org/abs/1909.08053, section 3): the *tensor axis*. The others are the *data axes*.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from model.errors import ModelError

TENSOR_AXIS = "tensor"
"""Name of the mesh axis over which layers are split; only a mesh that splits them has it."""
TENSOR_DIMENSIONS = {
    **dict.fromkeys(("query", "key", "value", "gate", "up"), -1),
    **dict.fromkeys(("attention_output", "down", "embedding", "head"), -2),
}
"""The dimension of each matrix that lies on the tensor axis: heads, hidden width or vocabulary."""


def make_mesh(devices: Sequence[Any] | None = None, *, tensor_parallel: int = 1) -> Mesh:
    """A mesh over `devices` (default: all) with Auto axes "d0", "d1", ..., one per prime factor, odd ones first.

    8 devices make axes of 2, 2, 2; 12 make 3, 2, 2; one device makes one axis of 1. With `tensor_parallel` above 1 so
    many neighbours form the last axis, "tensor": 8 devices and 2 make 2, 2 and 2. Raises ModelError when it does not
    divide the devices.
    """
    devices = jax.devices() if devices is None else list(devices)
    axes = mesh_axes(len(devices), tensor_parallel)
    kinds = (AxisType.Auto,) * len(axes)
    return Mesh(np.array(devices).reshape(list(axes.values())), tuple(axes), axis_types=kinds)


def mesh_axes(num_devices: int, tensor_parallel: int = 1) -> dict[str, int]:
    """Names and sizes of the axes of `make_mesh`: `mesh_axes(8, 2) == {"d0": 2, "d1": 2, "tensor": 2}`."""
    if num_devices % tensor_parallel:
        raise ModelError(
            f"tensor_parallel must divide the {num_devices} devices, got {tensor_parallel}; "
            "set distributed.tensor_parallel"
        )
    factors = _prime_factors(num_devices // tensor_parallel) or [1]
    axes = {f"d{index}": factor for index, factor in enumerate(factors)}
    return axes | ({TENSOR_AXIS: tensor_parallel} if tensor_parallel > 1 else {})


def tensor_axes(mesh: Mesh | AbstractMesh | None) -> tuple[str, ...]:
    """The axis over which layers are split, if the mesh has it."""
    return (TENSOR_AXIS,) if mesh is not None and TENSOR_AXIS in mesh.shape else ()


def data_axes(mesh: Mesh | AbstractMesh) -> tuple[str, ...]:
    """The axes over which rows and sequence are split, and parameters besides."""
    return tuple(name for name in mesh.axis_names if name != TENSOR_AXIS)


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
    names, local_rows = list(data_axes(mesh)), rows
    row_axes: list[str] = []
    while names and local_rows % mesh.shape[names[0]] == 0:
        local_rows //= mesh.shape[names[0]]
        row_axes.append(names.pop(0))
    remaining = math.prod(mesh.shape[name] for name in names)
    if length % remaining:
        raise ModelError(
            f"devices must divide a batch of {rows} rows x {length} tokens, got {mesh.size}; use a power of two of "
            "devices, or a tokens_per_step that they divide"
        )
    return PartitionSpec(tuple(row_axes) or None, tuple(names) or None)


def param_shardings(params: Any, mesh: Mesh | AbstractMesh, *, replicated: bool = False) -> Any:
    """A tree of NamedSharding: each parameter over all axes on its last dimension that they divide.

    Where they divide none, as many of the last axes as do. A matrix of TENSOR_DIMENSIONS has that dimension on the
    tensor axis, if it divides, and the others on the data axes. `replicated` leaves the data axes out: every replica
    holds the whole. `params` is a tree of anything with a shape whose paths end in parameters' names, so optimizer
    state works as well.
    """

    def shard(path: Any, leaf: Any) -> NamedSharding:
        shape: list[int] = list(leaf.shape)
        placed: list[tuple[str, ...]] = [()] * len(shape)
        tensor = tensor_dimension(path, leaf.shape, mesh)
        if tensor is not None:
            shape[tensor] //= mesh.shape[TENSOR_AXIS]
            placed[tensor] = (TENSOR_AXIS,)
        whole_mesh = (*data_axes(mesh), *tensor_axes(mesh))
        spread = () if replicated else whole_mesh if tensor is None else data_axes(mesh)
        for first in range(len(spread)):
            parts = math.prod(mesh.shape[name] for name in spread[first:])
            fits = [axis for axis, size in enumerate(shape) if parts > 1 and size and size % parts == 0]
            if fits:
                placed[fits[-1]] += spread[first:]
                break
        return NamedSharding(mesh, _trimmed_spec(placed))

    return jax.tree.map_with_path(shard, params)


def tensor_dimension(path: Any, shape: tuple[int, ...], mesh: Mesh | AbstractMesh | None) -> int | None:
    """Which dimension of the parameter at `path` lies on the tensor axis; None: none."""
    names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
    axis = TENSOR_DIMENSIONS.get(names[-1]) if names else None
    if mesh is None or TENSOR_AXIS not in mesh.shape or axis is None or len(shape) < 2:
        return None
    return axis % len(shape) if shape[axis] % mesh.shape[TENSOR_AXIS] == 0 else None


def _trimmed_spec(placed: Sequence[tuple[str, ...]]) -> PartitionSpec:
    """A spec of the axes of each dimension, as short as it can be."""
    used = max((index + 1 for index, axes in enumerate(placed) if axes), default=0)
    return PartitionSpec(*(axes or None for axes in placed[:used]))


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
    def platform(self) -> str:
        """Where it runs: that of the mesh's devices, which may be described only, else the default one."""
        return self.mesh.devices.flat[0].platform if isinstance(self.mesh, Mesh) else jax.default_backend()

    @property
    def row_axes(self) -> tuple[str, ...]:
        """Mesh axes over which rows are split."""
        return _axes(self.spec, 0)

    @property
    def sequence_axes(self) -> tuple[str, ...]:
        """Mesh axes over which the sequence is split."""
        return _axes(self.spec, 1)

    @property
    def tensor_axes(self) -> tuple[str, ...]:
        """Mesh axes over which heads, hidden width and vocabulary are split."""
        return tensor_axes(self.mesh)

    @property
    def tensor_parallel(self) -> int:
        """Into how many parts the tensor axis splits a layer."""
        return self.mesh.shape[TENSOR_AXIS] if self.mesh is not None and self.tensor_axes else 1

    def activations(self, x: jax.Array) -> jax.Array:
        """Constrain [rows, length, ...] to the batch's own sharding."""
        return self._constrain(x, PartitionSpec(*(self.spec or ())))

    def gathered(self, weight: jax.Array, path: Any = ()) -> jax.Array:
        """A parameter whole over the data axes (FSDP gathers it where it is used).

        Of one that `path` names in TENSOR_DIMENSIONS, a device keeps its own part on the tensor axis.
        """
        placed: list[tuple[str, ...]] = [()] * weight.ndim
        tensor = tensor_dimension(path, weight.shape, self.mesh)
        if tensor is not None:
            placed[tensor] = self.tensor_axes
        return self._constrain(weight, _trimmed_spec(placed))

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
