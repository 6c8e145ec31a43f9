"""Run by test_sharding.py with 8 virtual devices: train steps on several meshes against those of one device.

Its argument is a JSON list of {devices, tensor, whole: parameters not sharded, pass_tokens: of a microbatch, tokens: of
a step, buckets: [[length, packed]], vocab, optimizer, ...model settings}. Prints a JSON object for each mesh and
bucket: how the batch lies, in how many passes it goes through the model (on one device in one), the error of loss,
gradient and parameters relative to the largest value of each array, and the bytes of the state on a device.
"""

import dataclasses
import functools
import json
import sys
from types import SimpleNamespace
from typing import Any, cast

import jax
import numpy as np

import model
from dataservice import Bucket
from model import LlamaConfig, chunked
from training.config import Config, OptimizerConfig
from training.microbatches import microbatch_count
from training.placement import place_step
from training.step import abstract_state, batch_shapes, init_state, make_recipe, make_train_step

# Epsilon so large that Adam's direction follows the gradient smoothly: its rounding is not blown up to a step's size.
OPTIMIZER = OptimizerConfig(learning_rate=0.1, warmup_steps=0, epsilon=1e-2, weight_decay=0.1)


def main():
    chunked.BLOCK = 32  # so that a device's own queries are several blocks
    for case in json.loads(sys.argv[1]):
        devices = jax.devices()[: case.pop("devices")]
        mesh = model.make_mesh(devices, tensor_parallel=case.pop("tensor", 1))
        buckets = case.pop("buckets")
        own = {"shard_parameters": not case.pop("whole", False), "microbatch_tokens": case.pop("pass_tokens", 0)}
        for length, packed in buckets:
            report = compare(mesh, Bucket(length, packed), own, tuple(case.items()))
            print(json.dumps(report), flush=True)


def compare(mesh, bucket: Bucket, own: dict[str, Any], settings: tuple) -> dict[str, Any]:
    expected = step_on_one(bucket, settings)
    recipe = recipe_of(mesh, **dict(settings))._replace(**own)
    rows = recipe.tokens_per_step // bucket.length
    state, metrics = take_step(recipe, bucket)
    found = jax.device_get((state, metrics))
    errors = jax.tree.map(relative_error, expected, found)
    return {
        "mesh": str(dict(mesh.shape)),
        "spec": str(tuple(model.batch_spec(mesh, rows, bucket.length))),
        "passes": microbatch_count(mesh, rows, bucket.length, recipe.microbatch_tokens),
        "error": max(jax.tree.leaves(errors)),
        "bytes": max(bytes_on(device, state) for device in mesh.devices.flat),
        "all_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(state)),
    }


@functools.cache
def step_on_one(bucket: Bucket, settings: tuple) -> Any:
    mesh = model.make_mesh(jax.devices()[:1])
    return jax.device_get(take_step(recipe_of(mesh, **dict(settings)), bucket))


def recipe_of(mesh, tokens: int, vocab: int = 96, optimizer: Any = "adamw", **settings: Any) -> Any:
    sizes: dict[str, Any] = {"num_layers": 2, "dim": 64, "num_heads": 4, "num_kv_heads": 4, "hidden_dim": 128}
    chosen = dataclasses.replace(OPTIMIZER, name=optimizer)
    config = Config(model=LlamaConfig(**sizes | settings), optimizer=chosen)
    tokenizer = cast(Any, SimpleNamespace(vocab_size=vocab))
    return make_recipe(config, mesh, tokenizer, np.dtype(np.uint16), 10)._replace(tokens_per_step=tokens)


@functools.cache
def fresh_state(config: LlamaConfig, vocab_size: int, optimizer: str) -> Any:
    """Drawn on one device: how an array lies must not change how it is drawn."""
    recipe = recipe_of(model.make_mesh(jax.devices()[:1]), 1, vocab_size, optimizer)._replace(model=config)
    return jax.device_get(jax.jit(lambda: init_state(recipe, jax.random.key(0)))())


def take_step(recipe: Any, bucket: Bucket) -> Any:
    """New state and metrics of a step from fresh parameters; the optimizer state holds a multiple of the gradient."""
    abstract = abstract_state(recipe)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
    state = jax.device_put(fresh_state(recipe.model, recipe.vocab_size, recipe.optimizer_config.name), shardings)
    drawn = {name: draw(name, shape, recipe.vocab_size) for name, shape in batch_shapes(recipe, bucket).items()}
    step = jax.jit(make_train_step(recipe), donate_argnums=0, out_shardings=(shardings, None))
    return step(state, *place_step(recipe, bucket, drawn, 0))


def draw(name: str, shape: jax.ShapeDtypeStruct, vocab_size: int) -> np.ndarray:
    generator = np.random.default_rng([len(name), *shape.shape])
    if name == "weights":
        return (np.arange(shape.shape[0]) != 1).astype(shape.dtype)
    if name == "segments":
        return np.sort(generator.integers(0, 5, shape.shape), axis=1).astype(shape.dtype)
    return generator.integers(0, vocab_size, shape.shape).astype(shape.dtype)


def relative_error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))


def bytes_on(device: Any, tree: Any) -> int:
    shards = [shard for leaf in jax.tree.leaves(tree) for shard in leaf.addressable_shards]
    return sum(shard.data.nbytes for shard in shards if shard.device == device)


if __name__ == "__main__":
    main()
