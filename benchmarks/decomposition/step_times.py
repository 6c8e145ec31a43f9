"""Seconds of a step of each shape, in turns: `python -m benchmarks.decomposition.step_times FILE.json ARM_COMMAND...`.

Runs of different arms take their steps hours apart, and whatever else a machine does would weigh on one of them alone
(on a busy one, medians of runs were off by a factor of two). So the steps of all arms of a setting are timed in one
process: in every turn one step of each shape, with batches of the arm's own, after a turn that does not count. Shapes
are compared within turns.

Each ARM_COMMAND is the settings of an arm as JSON, a list of arguments of train.py.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.decomposition.curves import Shape, longest
from tokenizer.output import write_file

__all__ = ["StepTimes", "paired_medians", "read_step_times"]

TURNS = 12
MOST_BATCHES = 4
"""Different batches of a shape: documents decide what masked rows cost."""


class StepTimes(NamedTuple):
    """Seconds of the steps of each shape, one a turn."""

    wall: dict[Shape, list[float]]
    cpu: dict[Shape, list[float]]
    """Of all threads of the process."""

    def of(self, shape: Shape) -> dict[str, list[float]] | None:
        """Both kinds of seconds of a shape; None of one that no arm had when steps were timed."""
        return {"wall": self.wall[shape], "cpu": self.cpu[shape]} if shape in self.wall else None


def read_step_times(path: Path) -> StepTimes | None:
    """What was measured; None where nothing was yet."""
    if not path.exists():
        return None
    rows = json.loads(path.read_text(encoding="utf-8"))
    wall, cpu = ({Shape(row["length"], row["packed"]): row[name] for row in rows} for name in StepTimes._fields)
    return StepTimes(wall, cpu)


def paired_medians(turns: Mapping[Shape, Sequence[float]]) -> dict[Shape, float]:
    """Seconds of each shape: the median over turns of its ratio to the longest, times the median of the longest.

    >>> paired_medians({Shape(8, False): [1.0, 10.0, 2.0], Shape(16, False): [2.0, 20.0, 3.0]})[Shape(8, False)]
    1.5
    """
    base = turns[longest(turns)]
    unit = median(base)
    return {shape: unit * median(a / b for a, b in zip(own, base, strict=True)) for shape, own in turns.items()}


def measure_steps(arms: Sequence[Sequence[str]]) -> StepTimes:
    """Time the steps of all shapes of these arms of a setting."""
    import dataservice
    from benchmarks.recipes import make_state
    from training import devices
    from training.compilation import compile_train_steps
    from training.config import load_config
    from training.step import make_recipe

    configs = [load_config(arguments) for arguments in arms]
    mesh = devices.start(configs[0].distributed)
    store = dataservice.open_store(configs[0].data)
    recipe = make_recipe(configs[0], mesh, store.tokenizer(), store.dtype, 1000)
    batches: dict[Any, list[dict[str, Any]]] = {}
    for config in configs:
        _collect_batches(batches, store, config.data)
    steps = compile_train_steps(recipe, sorted(batches, reverse=True), lambda *_, **__: None)
    state = make_state(recipe)
    found = StepTimes({}, {})
    for turn in range(TURNS + 1):
        for bucket in sorted(batches):
            batch = batches[bucket][turn % len(batches[bucket])]
            state, wall, cpu = _time_step(state, steps[bucket], batch, recipe)
            if turn:
                shape = Shape(bucket.length, bucket.packed)
                found.wall.setdefault(shape, []).append(wall)
                found.cpu.setdefault(shape, []).append(cpu)
    return found


def _collect_batches(batches: dict[Any, list[dict[str, Any]]], store: Any, config: Any) -> None:
    """Add batches of the shapes that no arm before has had."""
    from dataservice import Bucket
    from dataservice import batches as open_batches

    known = set(batches)
    iterator = iter(open_batches(store, config))
    for batch in iterator:
        bucket = Bucket(batch["length"], batch["packed"])
        if bucket not in known and len(batches.setdefault(bucket, [])) < MOST_BATCHES:
            batches[bucket].append(batch)
    iterator.close()


def _time_step(state: Any, step: Any, batch: dict[str, Any], recipe: Any) -> tuple[Any, float, float]:
    import jax

    from dataservice import Bucket
    from training.placement import place_step

    placed = place_step(recipe, Bucket(batch["length"], batch["packed"]), batch, batch["step"])
    wall, cpu = time.perf_counter(), time.process_time()
    state, metrics = step.call(state, *placed)
    jax.block_until_ready((state, metrics))
    return state, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="file to write")
    parser.add_argument("arms", nargs="+", type=json.loads, help="arguments of train.py, as JSON")
    options = parser.parse_args()
    found = measure_steps(options.arms)
    rows = [
        {"length": shape.length, "packed": shape.packed, "wall": wall, "cpu": found.cpu[shape]}
        for shape, wall in sorted(found.wall.items())
    ]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_file(options.output, json.dumps(rows).encode())


if __name__ == "__main__":
    main()
