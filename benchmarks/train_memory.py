"""Memory of a train step by the length of its only row, measured in a process of its own.

python -m benchmarks.train_memory --model small --length 8192      # a JSON line
"""

import argparse
import json
import resource
import subprocess
import sys
from typing import NamedTuple

from benchmarks.recipes import MODELS, make_state, open_recipe, random_batch

STEPS = 2


class Memory(NamedTuple):
    """MB (10^6 bytes)."""

    temporary: float
    """What the compiled step needs beside its arguments and results."""
    held: float
    """The most that the process held."""


def measure_length(model: str, length: int) -> Memory:
    """Measure in a new process."""
    command = [sys.executable, "-m", "benchmarks.train_memory", "--model", model, "--length", str(length)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Memory(*json.loads(output.splitlines()[-1]))


def take_steps(model: str, length: int) -> Memory:
    """Compile the step for one row of the length and take it a few times."""
    import jax

    from dataservice import Bucket
    from training.compilation import compile_train_steps
    from training.placement import place_step

    measured, bucket = MODELS[model], Bucket(length, packed=False)
    recipe = open_recipe(measured.config, measured.vocab_size, max_length=length, tokens_per_step=length, cache=None)
    compiled = compile_train_steps(recipe, [bucket], lambda *_, **__: None)[bucket]
    state, batch = make_state(recipe), random_batch(measured.vocab_size, 1, length, seed=0)
    for step in range(STEPS):
        state, _metrics = compiled.call(state, *place_step(recipe, bucket, batch, step))
    jax.block_until_ready(state)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Memory(compiled.temporary_bytes / 1e6, held / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--length", type=int, required=True)
    options = parser.parse_args()
    print(json.dumps(take_steps(options.model, options.length)))


if __name__ == "__main__":
    main()
