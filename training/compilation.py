"""Every step is compiled before the first one is taken: one executable a bucket, several at a time, longest first."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
from jax.sharding import NamedSharding, PartitionSpec

import model
from dataservice import Bucket
from training.evaluation_step import make_evaluation_step
from training.microbatches import microbatch_count
from training.step import Recipe, abstract_state, batch_shapes, make_train_step, rate_shape


class CompiledStep(NamedTuple):
    """An executable of one bucket and what it took to make it."""

    bucket: Bucket
    call: Any
    seconds: float
    temporary_bytes: int
    flops_per_token: float


def compile_train_steps(
    recipe: Recipe, buckets: Sequence[Bucket], progress: Callable[..., None]
) -> dict[Bucket, CompiledStep]:
    """Compile the train step for each bucket; the state is donated and keeps its sharding."""
    state = abstract_state(recipe)
    shardings = (jax.tree.map(lambda leaf: leaf.sharding, state), replicated(recipe))
    step = jax.jit(make_train_step(recipe), donate_argnums=0, out_shardings=shardings)
    jobs = [(bucket, (state, batch_shapes(recipe, bucket), rate_shape(recipe))) for bucket in buckets]
    return _compile_all(step, jobs, recipe, progress, "compile train step")


def compile_evaluation_steps(
    recipe: Recipe, buckets: Sequence[Bucket], progress: Callable[..., None]
) -> dict[Bucket, CompiledStep]:
    """Compile the evaluation step for each bucket."""
    params = abstract_state(recipe)["params"]
    lengths = jax.ShapeDtypeStruct((recipe.vocab_size,), "int32", sharding=replicated(recipe))
    step = jax.jit(make_evaluation_step(recipe), out_shardings=replicated(recipe))
    jobs = [(bucket, (params, batch_shapes(recipe, bucket), lengths)) for bucket in buckets]
    return _compile_all(step, jobs, recipe, progress, "compile evaluation step")


def replicated(recipe: Recipe) -> NamedSharding:
    """The sharding of what every device holds whole."""
    return NamedSharding(recipe.mesh, PartitionSpec())


def compilation_table(steps: Iterable[CompiledStep], recipe: Recipe) -> list[str]:
    """Lines of a table: length, rows, passes (microbatches), compile seconds, temporary memory, FLOPs per token."""
    lines = [f"{'length':>8} {'rows':>6} {'passes':>6} {'compile s':>10} {'temporary':>10} {'MFLOP/token':>12}"]
    too_few_rows = []
    for step in steps:
        name = f"{step.bucket.length}{'p' if step.bucket.packed else ''}"
        rows = recipe.tokens_per_step // step.bucket.length
        passes = microbatch_count(recipe.mesh, rows, step.bucket.length, recipe.microbatch_tokens)
        if recipe.tokens_per_step > passes * (recipe.microbatch_tokens or recipe.tokens_per_step):
            too_few_rows.append(name)
        memory = f"{step.temporary_bytes / 2**20:.0f} MiB"
        shape = f"{name:>8} {rows:>6} {passes:>6}"
        lines.append(f"{shape} {step.seconds:>10.1f} {memory:>10} {step.flops_per_token / 1e6:>12.1f}")
    if too_few_rows:
        passes_of = f"passes of {recipe.microbatch_tokens:,} tokens"
        lines.append(f"too few rows for {passes_of}, so in larger ones: length {', '.join(too_few_rows)}")
    return lines


def _compile_all(step, jobs, recipe: Recipe, progress, phase: str) -> dict[Bucket, CompiledStep]:
    """Two at a time, or half of the cores: XLA itself uses threads, and memory grows with each compilation."""
    compiled: dict[Bucket, CompiledStep] = {}
    # Tracing holds the interpreter lock, so it is done here and only compiling is left to the threads. On several
    # processes the order of compilation must be the same everywhere.
    workers = 1 if jax.process_count() > 1 else max(2, (os.cpu_count() or 2) // 2)
    with ThreadPoolExecutor(workers) as pool:
        pending = [
            (bucket, pool.submit(_compile, step.lower(*arguments), bucket, recipe)) for bucket, arguments in jobs
        ]
        for done, (bucket, future) in enumerate(pending):
            progress(phase, done, len(jobs), note=f"length {bucket.length}")
            compiled[bucket] = future.result()
    progress(phase, len(jobs), len(jobs))
    return compiled


def _compile(lowered, bucket: Bucket, recipe: Recipe) -> CompiledStep:
    start = time.perf_counter()
    executable = lowered.compile()
    memory = executable.memory_analysis()
    return CompiledStep(
        bucket=bucket,
        call=executable,
        seconds=time.perf_counter() - start,
        temporary_bytes=getattr(memory, "temp_size_in_bytes", 0) or 0,
        flops_per_token=model.flops_per_token(recipe.model, recipe.vocab_size, bucket.length),
    )
