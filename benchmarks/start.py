"""Making the compiled steps of 8 buckets, with an empty compile cache and with a full one.

    python -m benchmarks.start [--model small] [--repeats 3]

Lengths 64 to 8,192, as train.py compiles them, in a new process each time. `steps` is from the settings to the last
executable, tracing included; `process` adds Python's start and the imports.
"""

import argparse
import json
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.measurement import middle, paired_ratio, print_table, run_in_turns
from benchmarks.recipes import MODELS, open_recipe

STATES = ("cold", "warm")
LENGTHS = tuple(1 << power for power in range(13, 5, -1))


class Start(NamedTuple):
    """Seconds; CPU seconds are of all threads."""

    steps_wall: float
    steps_cpu: float
    process_cpu: float


def compile_steps(model: str, cache: Path) -> Start:
    """Compile the train steps of all lengths in this process."""
    from dataservice import Bucket
    from training.compilation import compile_train_steps

    measured = MODELS[model]
    longest = LENGTHS[0]
    recipe = open_recipe(measured.config, measured.vocab_size, max_length=longest, tokens_per_step=longest, cache=cache)
    wall, cpu = time.perf_counter(), cpu_seconds()
    compile_train_steps(recipe, [Bucket(length, packed=False) for length in LENGTHS], lambda *_, **__: None)
    return Start(time.perf_counter() - wall, cpu_seconds() - cpu, cpu_seconds())


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="small", help="what to compile (default small)")
    parser.add_argument("--repeats", type=int, default=3, help="starts of either kind (default 3)")
    parser.add_argument("--peer", choices=STATES, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        if options.peer == "cold":
            shutil.rmtree(options.cache, ignore_errors=True)
        print(json.dumps(compile_steps(options.model, options.cache)))
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--model", options.model, "--cache", f"{folder}/compiled"]
        results = run_in_turns("benchmarks.start", STATES, arguments, options.repeats, result=Start)
    rows = [
        [
            state,
            *(f"{middle(runs, name):.1f} ({paired_ratio(runs, results['cold'], name):.2f})" for name in Start._fields),
        ]
        for state, runs in results.items()
    ]
    print(f"seconds, medians of {options.repeats}, and over cold\n")
    print_table(["compile cache", "steps, wall", "steps, CPU", "process, CPU"], rows)


if __name__ == "__main__":
    main()
