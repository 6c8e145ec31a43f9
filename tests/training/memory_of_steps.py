"""Run by test_plan.py with virtual devices: what the compiler says of a step's memory, and what the formula says.

Its argument is a JSON list of {devices, tensor, rows, length, vocab, ...model settings}. Prints a JSON object for each:
the bytes that the step is given and returns, by both, and those that it needs besides.
"""

import json
import sys
from typing import Any, cast

import jax
import numpy as np

import model
from dataservice import Bucket
from model import LlamaConfig
from tokenizer.config import TokenizerConfig
from training.config import Config
from training.memory import device_memory
from training.step import abstract_state, batch_shapes, make_recipe, make_train_step, rate_shape

SIZES = {"num_layers": 6, "dim": 64, "num_heads": 4, "hidden_dim": 192}


def main():
    for case in json.loads(sys.argv[1]):
        devices = jax.devices()[: case.pop("devices")]
        mesh = model.make_mesh(devices, tensor_parallel=case.pop("tensor", 1))
        rows, length, vocab = case.pop("rows"), case.pop("length"), case.pop("vocab", 512)
        config = Config(model=LlamaConfig(**SIZES | case), tokenizer=TokenizerConfig(vocab_size=vocab))
        recipe = make_recipe(config, mesh, cast(Any, config.tokenizer), np.dtype(np.uint16), 10)
        print(json.dumps(measure(recipe._replace(tokens_per_step=rows * length), Bucket(length, False))), flush=True)


def measure(recipe, bucket):
    state = abstract_state(recipe)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
    step = jax.jit(make_train_step(recipe), donate_argnums=0, out_shardings=(shardings, None))
    found: Any = step.lower(state, batch_shapes(recipe, bucket), rate_shape(recipe)).compile().memory_analysis()
    expected = device_memory(recipe, bucket)
    return {
        "arguments": [found.argument_size_in_bytes, expected.arguments],
        "kept in place": [found.alias_size_in_bytes, expected.parameters + expected.optimizer],
        "temporary": [found.temp_size_in_bytes, expected.temporary],
    }


if __name__ == "__main__":
    main()
