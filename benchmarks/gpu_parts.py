"""What benchmarks.gpu measures, a part at a time: each yields rows (dicts of plain values) as soon as it has them.

A part stops beginning new work when its time is over. Libraries are imported inside, since each part has a process of
its own.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.recipes import make_state, open_recipe, random_batch
from model import PRESETS, LlamaConfig

__all__ = ["FULL", "PARTS", "SMALL", "Sizes", "measure_part"]

Row = dict[str, Any]
WARM_UP_STEPS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """What to measure, most wanted first."""

    models: dict[str, LlamaConfig]
    vocab_size: int
    tokens_per_step: int
    lengths: tuple[int, ...]
    grid_tokens: tuple[int, ...]
    torch_lengths: tuple[int, ...]
    kernel_lengths: tuple[int, ...]
    steps: int
    repetitions: int = 5


FULL = Sizes(
    models={
        name: dataclasses.replace(PRESETS[name], dtype="bfloat16")
        for name in ("openlm-160m", "openlm-410m", "openlm-1b")
    },
    vocab_size=50_432,
    tokens_per_step=1 << 16,
    lengths=(16_384, 8192, 4096, 2048, 1024, 512, 256, 128, 64),
    grid_tokens=tuple(1 << power for power in (16, 14, 12, 10, 8, 15, 13, 11, 9, 7, 6)),
    torch_lengths=(8192, 2048, 512),
    kernel_lengths=(64, 512, 4096),
    steps=4,
)
SMALL = Sizes(
    models={"tiny": dataclasses.replace(PRESETS["openlm-160m"], num_layers=1, dim=32, num_heads=2, hidden_dim=32)},
    vocab_size=128,
    tokens_per_step=128,
    lengths=(64, 32),
    grid_tokens=(32,),
    torch_lengths=(64,),
    kernel_lengths=(32,),
    steps=1,
)


class Work(NamedTuple):
    """What a part is given."""

    sizes: Sizes
    cache: Path
    """Folder of the compile cache."""
    deadline: float
    """time.monotonic() after which no new work begins."""

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.deadline


def compile_lengths(work: Work, config: LlamaConfig, tokens: int) -> tuple[Any, dict[Any, Any], float]:
    """(recipe, compiled steps by bucket, wall seconds) of all lengths that fit into so many tokens."""
    from dataservice import Bucket
    from training.compilation import compile_train_steps

    sizes = work.sizes
    lengths = [length for length in sizes.lengths if length <= tokens]
    recipe = open_recipe(config, sizes.vocab_size, max_length=max(lengths), tokens_per_step=tokens, cache=work.cache)
    start = time.perf_counter()
    steps = compile_train_steps(recipe, [Bucket(length, packed=False) for length in lengths], lambda *_, **__: None)
    return recipe, steps, time.perf_counter() - start


def time_repetitions(work: Work, take_step: Callable[[], Any], wait: Callable[[Any], None]) -> list[float]:
    """Mean seconds of a step in each repetition of some steps, after two that are not counted."""
    for _ in range(WARM_UP_STEPS):
        wait(take_step())
    seconds = []
    for _ in range(work.sizes.repetitions):
        start = time.perf_counter()
        for _ in range(work.sizes.steps):
            last = take_step()
        wait(last)
        seconds.append((time.perf_counter() - start) / work.sizes.steps)
    return seconds


def time_buckets(work: Work, name: str, tokens: int) -> Iterator[Row]:
    """A row for every length, at first with matrix products kept for the backward pass, else with whole layers anew."""
    import jax

    for remat in ("dots", "layer"):
        config = dataclasses.replace(work.sizes.models[name], remat=remat)
        try:
            yield from _time_buckets(work, name, config, tokens)
            return
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            yield {"model": name, "tokens": tokens, "note": f"out of memory with model.remat={remat}"}


def _time_buckets(work: Work, name: str, config: LlamaConfig, tokens: int) -> Iterator[Row]:
    import jax

    import model
    from training.devices import peak_flops
    from training.placement import place_step

    recipe, steps, _ = compile_lengths(work, config, tokens)
    state = make_state(recipe)
    for bucket, compiled in steps.items():
        if work.is_over:
            yield {"model": name, "tokens": tokens, "note": f"no time left for length {bucket.length} and after"}
            return
        rows = tokens // bucket.length
        batch = random_batch(recipe.vocab_size, rows, bucket.length, seed=0)
        placed = place_step(recipe, bucket, batch, step=1)

        def take_step(call: Any = compiled.call, placed: Any = placed) -> Any:
            nonlocal state
            state, metrics = call(state, *placed)
            return metrics

        seconds = time_repetitions(work, take_step, jax.block_until_ready)
        flops = tokens * model.flops_per_token(config, recipe.vocab_size, bucket.length)
        yield {
            "model": name,
            "rows": rows,
            "length": bucket.length,
            "seconds": seconds,
            "flops": flops,
            "peak": peak_flops(recipe.mesh),
            "temporary": compiled.temporary_bytes,
            "remat": config.remat,
        }


def measure_buckets(work: Work) -> Iterator[Row]:
    """Step time of every length at the full step, for every model."""
    for name in work.sizes.models:
        if not work.is_over:
            yield from time_buckets(work, name, work.sizes.tokens_per_step)


def measure_grid(work: Work) -> Iterator[Row]:
    """Step time of rows x length, for the first model."""
    name = next(iter(work.sizes.models))
    for tokens in work.sizes.grid_tokens:
        if work.is_over:
            yield {"model": name, "tokens": tokens, "note": f"no time left for {tokens:,} tokens and after"}
            return
        yield from time_buckets(work, name, tokens)


def measure_start(work: Work) -> Iterator[Row]:
    """Seconds to have the steps of all lengths of the first model, with whatever the compile cache holds."""
    name, config = next(iter(work.sizes.models.items()))
    _, steps, seconds = compile_lengths(work, config, work.sizes.tokens_per_step)
    yield {"model": name, "lengths": len(steps), "seconds": seconds}


def measure_device(work: Work) -> Iterator[Row]:
    """What is measured on, and with which versions."""
    import importlib.metadata
    import platform

    import jax

    device = jax.devices()[0]
    statistics = device.memory_stats() or {}
    names = ("jax", "jaxlib", "flax", "optax", "torch")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in names if _is_installed(name)]
    yield {
        "device": device.device_kind,
        "memory": statistics.get("bytes_limit"),
        "versions": [f"Python {platform.python_version()}", *versions],
    }


def _is_installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def measure_kernels(work: Work) -> Iterator[Row]:
    """The start-up check of the kernels, and how far the chosen one is from the chunked path in float32."""
    import jax
    import jax.numpy as jnp

    import model
    from model.selfcheck import cases_of, measure_errors

    config = next(iter(work.sizes.models.values()))
    for case, error in measure_errors(config, cases_of(config, [(8192, False), (64, True)])).items():
        yield {"kernel": str(case), "error": error}
    for length in work.sizes.kernel_lengths:
        keys = jax.random.split(jax.random.key(0), 3)
        shape = (2, length, config.num_heads, config.head_width)
        exact = [jax.random.normal(key, shape, jnp.bfloat16).astype(jnp.float32) for key in keys]
        dtype = jnp.bfloat16 if config.dtype == "bfloat16" else jnp.float32
        rounded = [x.astype(dtype) for x in exact]

        def total(q: Any, k: Any, v: Any, kernel: str) -> tuple[Any, Any]:
            out = model.attend(q, k, v, kernel=kernel)
            return jnp.sum(out.astype(jnp.float32) ** 2), out

        measure = jax.jit(jax.grad(total, argnums=(0, 1, 2), has_aux=True), static_argnums=3)
        found, wanted = measure(*rounded, "auto"), measure(*exact, "chunked")
        difference = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a.astype(jnp.float32) - b)), found, wanted)
        grads, out = difference
        yield {"length": length, "dtype": str(dtype.__name__), "output": float(out), "gradient": float(max(grads))}


def measure_torch(work: Work) -> Iterator[Row]:
    """The same steps in torch, compiled, with its flash attention."""
    if not _is_installed("torch"):
        yield {"note": "torch is not installed, so it is not compared"}
        return
    from benchmarks.gpu_torch import time_torch

    yield from time_torch(work)


PARTS: dict[str, Callable[[Work], Iterator[Row]]] = {
    "device": measure_device,
    "kernels": measure_kernels,
    "cold start": measure_start,
    "warm start": measure_start,
    "buckets": measure_buckets,
    "torch": measure_torch,
    "grid": measure_grid,
}


def measure_part(name: str, sizes: Sizes, cache: Path, seconds: float) -> Iterator[Row]:
    """The rows of a part, which begins nothing after so many seconds."""
    return PARTS[name](Work(sizes, cache, time.monotonic() + seconds))
