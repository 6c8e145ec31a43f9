"""The process and its devices: memory allocator, processes, compilation cache, mesh."""

import os
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh

import model
from tokenizer.allocation import (
    M_ARENA_MAX,
    M_MMAP_MAX,
    M_TOP_PAD,
    M_TRIM_THRESHOLD,
    keep_freed_memory,
    set_allocator,
)
from training.companions import patience, watch_companions
from training.errors import TrainingError
from training.settings import DistributedConfig

_LARGE = 512 * 2**20
_HEARTBEAT_SECONDS = 900
"""After which jax aborts every process when one is silent; the watchdog's limit comes before, and says where."""

_NO_LAUNCHER = "coordinator_address should be defined"
"""In what jax says when nothing around the process tells of others."""


def start(config: DistributedConfig) -> Mesh:
    """Set up this process and return the mesh over all devices of the run."""
    keep_large_buffers()
    join_processes(config)
    use_compilation_cache()
    return model.make_mesh(tensor_parallel=config.tensor_parallel)


def keep_large_buffers() -> None:
    """Tell glibc to keep freed memory instead of giving every step's buffers back to the kernel.

    On CPU the page faults of re-mapping cost up to a quarter of a large step. The same as the environment variables
    MALLOC_MMAP_MAX_=0 and so on, but from within, so that no user needs to know.
    """
    keep_freed_memory()  # now, lest it lowers these values later
    set_allocator({M_ARENA_MAX: 1, M_MMAP_MAX: 0, M_TRIM_THRESHOLD: _LARGE, M_TOP_PAD: _LARGE // 8})


def join_processes(config: DistributedConfig) -> None:
    """Connect this process with the others of the run; nothing to do for one.

    Raises:
        TrainingError: the others cannot be reached.
    """
    if config.mode == "single":
        return
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # Ours comes first, as jax ends the process where it gives up.
    options: dict[str, Any] = {
        "initialization_timeout": 2 * config.timeout + 60,
        "heartbeat_timeout_seconds": _HEARTBEAT_SECONDS,
    }
    if config.mode == "explicit":
        options |= {"coordinator_address": config.coordinator}
        options |= {"num_processes": config.num_processes, "process_id": config.process_id}
    who = "all processes" if config.num_processes is None else f"all {config.num_processes} processes"
    where = "" if config.coordinator is None else f" at {config.coordinator}"
    try:
        with patience(config.timeout, f"{who}{where}", "distributed.timeout"):
            jax.distributed.initialize(**options)
    except (RuntimeError, ValueError) as error:
        if config.mode == "auto" and _NO_LAUNCHER in str(error):
            raise TrainingError(
                "distributed.mode=auto must be started by Slurm, Open MPI or on a TPU pod, got none of them around "
                "this process; start it with srun or mpirun, name the others with distributed.mode=explicit, or leave "
                "distributed.mode out for one process"
            ) from None
        raise TrainingError(
            f"distributed: all processes must reach the coordinator, got {str(error).splitlines()[0]}; "
            "check distributed.coordinator and that every process was started"
        ) from None
    watch_companions()


def use_compilation_cache() -> None:
    """Keep compiled steps in one folder of the user's, whatever their size and compile time.

    DYADLM_COMPILE_CACHE names another folder. XLA's own caches stay off: their path would become part of every key.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = Path(os.environ.get("DYADLM_COMPILE_CACHE", home / "dyadlm" / "compile"))
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


def describe_devices(mesh: Mesh) -> str:
    """One line: how many devices of which kind, in how many processes."""
    device = mesh.devices.flat[0]
    processes = f" in {jax.process_count()} processes" if jax.process_count() > 1 else ""
    return f"{mesh.size} x {device.device_kind}{processes}"


# Dense bfloat16 peaks in FLOP/s a device, from the makers' data sheets; matched by the start of the device kind.
_PEAK_FLOPS = {
    "NVIDIA A100": 312e12,
    "NVIDIA H100": 989e12,
    "NVIDIA H200": 989e12,
    "NVIDIA B200": 2250e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5p": 459e12,
    "TPU v5": 459e12,
    "TPU v6 lite": 918e12,
}


def peak_flops(mesh: Mesh) -> float | None:
    """Peak FLOP/s of all devices of the mesh; None for devices without a published one, such as CPUs."""
    kind = mesh.devices.flat[0].device_kind
    for name, peak in _PEAK_FLOPS.items():
        if kind.startswith(name):
            return peak * mesh.size
    return None
