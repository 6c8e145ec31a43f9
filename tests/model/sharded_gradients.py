"""Run by test_sharding.py with 8 virtual devices: gradients of a batch laid out by `batch_spec` against one device's.

Its argument lists [rows, length, packed] of each case. Prints the largest share of a parameter that one device holds,
then a JSON object a case: its spec and the largest error of loss and gradient, relative to the largest gradient.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

import model
from model import chunked

VOCAB_SIZE = 64


def main():
    chunked.BLOCK = 32  # so that a device's own queries are several blocks
    config = model.LlamaConfig(num_layers=2, dim=64, num_heads=4, num_kv_heads=2, norm="layer", qk_norm=True)
    params = jax.jit(lambda key: model.init_params(config, VOCAB_SIZE, key))(jax.random.key(0))
    mesh = model.make_mesh()
    shardings = model.param_shardings(params, mesh)
    sharded = jax.device_put(params, shardings)
    largest_share = max(x.addressable_shards[0].data.nbytes / x.nbytes for x in jax.tree.leaves(sharded))
    print(json.dumps({"largest_share": largest_share}))
    for rows, length, packed in json.loads(sys.argv[1]):
        spec = model.batch_spec(mesh, rows, length)
        batch = draw_batch(rows, length, packed)
        on_one = jax.jit(gradient, static_argnames="config")(params, config, *batch)
        placed = [None if x is None else jax.device_put(x, jax.NamedSharding(mesh, spec)) for x in batch]
        compiled = jax.jit(
            lambda params, *batch, spec=spec: gradient(params, config, *batch, mesh=mesh, spec=spec),
            out_shardings=(None, shardings),
        )
        on_all = jax.device_get(compiled(sharded, *placed))
        errors = jax.tree.map(lambda a, b: float(np.abs(a - b).max() / np.abs(a).max()), jax.device_get(on_one), on_all)
        print(json.dumps({"spec": str(tuple(spec)), "error": max(jax.tree.leaves(errors))}), flush=True)


def gradient(params, config, tokens, targets, segments, **layout):
    def loss(params):
        log_probabilities = jax.nn.log_softmax(model.logits(params, config, tokens, segments_BL=segments, **layout))
        return -jnp.take_along_axis(log_probabilities, targets[..., None], axis=-1).mean()

    return jax.value_and_grad(loss)(params)


def draw_batch(rows, length, packed):
    generator = np.random.default_rng(length)
    tokens, targets = generator.integers(0, VOCAB_SIZE, (2, rows, length))
    segments = np.sort(generator.integers(0, 5, (rows, length)), axis=1)
    return tokens, targets, segments if packed else None


if __name__ == "__main__":
    main()
