"""`python -m training plan`: how a run would lie on its devices, and what it would need, before it has any."""

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh

import dataservice
import model
from dataservice import Bucket
from tokenizer import Tokenizer
from training.compilation import compile_train_steps
from training.config import Config
from training.errors import TrainingError
from training.memory import DeviceMemory, device_memory
from training.run import Run
from training.step import Recipe, abstract_state, make_recipe

GIB = 2**30
HEADER = (
    f"{'length':>8} {'rows':>6} {'split':>12} {'GFLOP/token':>12} {'batch':>9} {'activations':>12} {'workspace':>10} "
    f"{'in all':>9}"
)


def abstract_mesh(num_devices: int, tensor_parallel: int) -> AbstractMesh:
    """The mesh of so many devices that need not be there."""
    axes = model.mesh_axes(num_devices, tensor_parallel)
    return AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def described_mesh(topology: str, tensor_parallel: int) -> Mesh:
    """The mesh of a TPU slice that need not be there, such as v5e:2x4; steps can be compiled for it.

    Raises:
        TrainingError: libtpu, which compiles for TPUs, is not installed or knows no such slice.
    """
    from jax.experimental import topologies

    jax.config.update("jax_platforms", "cpu")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # or libtpu asks a cloud's servers what it runs on
    try:
        devices = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise TrainingError(
            f"--topology must be a TPU slice that libtpu knows, such as v5e:2x4, got {topology} "
            f"({str(error).splitlines()[0]}); libtpu comes with pip install -e .[tpu]"
        ) from None
    return model.make_mesh(devices, tensor_parallel=tensor_parallel)


def virtual_mesh(num_devices: int, tensor_parallel: int) -> Mesh:
    """A mesh of so many virtual CPU devices, in a process that has not used JAX yet."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", num_devices)
    return model.make_mesh(tensor_parallel=tensor_parallel)


class Vocabulary(NamedTuple):
    """How many tokens a model would know, and where that is from."""

    size: int
    origin: str

    def __str__(self) -> str:
        return f"vocabulary: {self.size:,} tokens, {self.origin}"


def find_vocabulary(config: Config, folders: Iterable[Path]) -> Vocabulary:
    """That of the tokenizer which a run would have, if it lies here; else what the settings ask for.

    `folders` are where the run may be: of one that has begun, the tokenizer is there.

    Raises:
        DataError, TokenizerError: a store or a tokenizer that lies here cannot be read.
    """
    if config.tokenizer.path is not None and Path(config.tokenizer.path).is_dir():
        return Vocabulary(Tokenizer.load(config.tokenizer.path).vocab_size, f"of {config.tokenizer.path}")
    # The stores of a mixture have one tokenizer.
    for place in config.data.store if isinstance(config.data.store, dict) else [config.data.store]:
        if place is not None and Path(place.removeprefix("file://")).is_dir():
            return Vocabulary(dataservice.open_store(place).tokenizer().vocab_size, f"of {place}")
    for run in map(Run, folders):
        if run.tokenizer.is_dir():
            return Vocabulary(Tokenizer.load(run.tokenizer).vocab_size, f"of {run.tokenizer}")
    return Vocabulary(
        config.tokenizer.vocab_size,
        "assumed as tokenizer.vocab_size says: no tokenizer.path, data.store or run that lies here tells",
    )


def plan_recipe(
    config: Config, mesh: Any, dtype: Literal["float32", "bfloat16"], vocab_size: int | None = None
) -> Recipe:
    """What the steps of a run would be made of; without `vocab_size`, with that of the settings. No data is opened.

    `dtype` is what model.dtype=auto means: where the plan is made says nothing about where it is for.
    """
    if config.model.dtype == "auto":
        config = dataclasses.replace(config, model=dataclasses.replace(config.model, dtype=dtype))
    tokenizer: Any = SimpleNamespace(vocab_size=vocab_size or config.tokenizer.vocab_size)
    token_dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
    return make_recipe(config, mesh, tokenizer, token_dtype, config.train.num_steps or 1)


class Planned(NamedTuple):
    """A bucket and the memory of its step by formula."""

    bucket: Bucket
    memory: DeviceMemory


def plan_buckets(config: Config, recipe: Recipe) -> list[Planned]:
    """Memory by formula of every bucket of the settings, longest first."""
    return [Planned(bucket, device_memory(recipe, bucket)) for bucket in dataservice.buckets(config.data)]


def describe_plan(recipe: Recipe, planned: list[Planned], limit: int | None) -> list[str]:
    """Lines to print: the model, the mesh, and a table of the buckets; `limit` is the memory of a device in bytes."""
    memory = planned[0].memory
    axes = " x ".join(f"{name} {size}" for name, size in recipe.mesh.shape.items())
    whole = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(abstract_state(recipe)))
    lines = [
        f"model: {model.count_params(recipe.model, recipe.vocab_size):,} parameters, vocabulary {recipe.vocab_size:,}; "
        f"state of {_gib(whole)} with the optimizer",
        f"mesh of {recipe.mesh.size}: {axes}",
        f"on each device: parameters {_gib(memory.parameters)}, optimizer {_gib(memory.optimizer)}, "
        f"gradients {_gib(memory.gradients)}, and by bucket (split: rows x sequence x layer):",
        HEADER,
    ]
    for bucket, memory in planned:
        total = memory.arguments + memory.temporary
        flops = model.flops_per_token(recipe.model, recipe.vocab_size, bucket.length) / 1e9
        shape = f"{_name(bucket):>8} {recipe.tokens_per_step // bucket.length:>6} {split_of(recipe, bucket):>12}"
        sizes = f"{_gib(memory.batch):>9} {_gib(memory.activations):>12} {_gib(memory.workspace):>10} {_gib(total):>9}"
        over = f"  over {_gib(limit)}" if limit is not None and total > limit else ""
        lines.append(f"{shape} {flops:>12.3f} {sizes}{over}")
    return lines


def split_of(recipe: Recipe, bucket: Bucket) -> str:
    """Over how many devices rows, sequence and layers are split: "4 x 2 x 1"."""
    mesh = recipe.mesh
    spec = model.batch_spec(mesh, recipe.tokens_per_step // bucket.length, bucket.length)
    groups = [*((axes,) if isinstance(axes, str) else axes or () for axes in spec), model.tensor_axes(mesh)]
    return " x ".join(str(int(np.prod([mesh.shape[axis] for axis in group]))) for group in groups)


def describe_compiled(recipe: Recipe, planned: list[Planned]) -> list[str]:
    """Compile the train step of every bucket for the recipe's mesh; lines of what the compiler says it needs."""
    steps = compile_train_steps(recipe, [bucket for bucket, _ in planned], lambda *_, **__: None)
    lines = [f"{'length':>8} {'compile s':>10} {'arguments':>10} {'temporary':>10} {'by formula':>10}"]
    for bucket, memory in planned:
        analysis = steps[bucket].call.memory_analysis()
        lines.append(
            f"{_name(bucket):>8} {steps[bucket].seconds:>10.1f} "
            f"{_gib(analysis.argument_size_in_bytes):>10} {_gib(analysis.temp_size_in_bytes):>10} "
            f"{_gib(memory.temporary):>10}"
        )
    return lines


def _name(bucket: Bucket) -> str:
    return f"{bucket.length}{'p' if bucket.packed else ''}"


def _gib(size: float) -> str:
    """Bytes as people read them: 3.2 GiB, 40 MiB."""
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:.1f} MiB"
