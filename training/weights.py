"""Weights of a run, apart from how it is trained: read from its newest checkpoint, written as a run of their own."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

import model
from model import LlamaConfig
from tokenizer import Tokenizer
from tokenizer.output import check_writable
from training.config import Config, load_config
from training.errors import CheckpointError, TrainingError
from training.run import Run

__all__ = ["Weights", "check_new_folder", "fit_rows", "read_weights", "write_weights"]


class Weights(NamedTuple):
    """What generation, export and evaluation need."""

    params: dict[str, Any]
    """Nested dict of float32 arrays."""
    config: Config
    """That of the run."""
    tokenizer: Tokenizer
    step: int
    """Steps that they were trained for."""


def read_weights(folder: Path, step: int | None = None) -> Weights:
    """Read a run's weights onto the default device.

    Args:
        folder: The run.
        step: A checkpoint's; the newest without it.

    Raises:
        TrainingError: the folder is no run, has no such checkpoint, or a damaged one.
    """
    run = Run(folder)
    if not (folder / "config.yaml").is_file() or not run.tokenizer.is_dir():
        raise TrainingError(
            f"run must be a folder with config.yaml and tokenizer/, got {folder}; train one with python train.py"
        )
    config = load_config([str(folder / "config.yaml")])
    tokenizer = Tokenizer.load(run.tokenizer)
    steps = _steps(run)
    if step is None and steps:
        step = max(steps)
    if step is None or step not in steps:
        expected = ", ".join(map(str, sorted(steps))) or "none yet"
        raise TrainingError(f"step must be that of a checkpoint ({expected}) of {folder}, got {step}")
    return Weights(_restore(run, step, config.model, tokenizer.vocab_size), config, tokenizer, step)


def write_weights(folder: Path, params: dict[str, Any], config: LlamaConfig, tokenizer: Tokenizer) -> None:
    """Make a run at step 0 of weights from elsewhere; config.yaml, its commit point, comes last.

    Raises:
        TrainingError: the folder has something else in it.
    """
    check_new_folder(folder)
    run = Run(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(run.tokenizer)
    with ocp.CheckpointManager(run.checkpoints.absolute()) as manager:
        manager.save(0, args=ocp.args.Composite(state=ocp.args.StandardSave({"params": params})))
    whole = Config(model=config)
    own = dataclasses.replace(whole.tokenizer, path=str(run.tokenizer))
    run.write_config(dataclasses.replace(whole, tokenizer=own))


def check_new_folder(folder: Path) -> None:
    """Raise TrainingError where something stands already, or nothing can be written."""
    check_writable(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise TrainingError(f"output must be a new or empty folder, got {folder}; choose another with --output")


def fit_rows(params: dict[str, Any], num_rows: int) -> dict[str, Any]:
    """Give the embeddings this number of rows: the last ones are cut off, or new ones are the mean of all."""

    def fit(table_VD: jax.Array) -> jax.Array:
        kept = jnp.asarray(table_VD)[:num_rows]
        mean = jnp.broadcast_to(kept.mean(axis=0), (num_rows - len(kept), kept.shape[1]))
        return jnp.concatenate([kept, mean])

    return params | {name: fit(params[name]) for name in ("embedding", "head") if name in params}


def _steps(run: Run) -> set[int]:
    """Committed ones: while it is written, the folder of a step has another name."""
    if not run.checkpoints.is_dir():
        return set()
    return {int(path.name) for path in run.checkpoints.iterdir() if path.name.isdigit()}


def _restore(run: Run, step: int, config: LlamaConfig, vocab_size: int) -> dict[str, Any]:
    """The parameters alone, without the optimizer's state."""
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        {"params": model.abstract_params(config, vocab_size)},
    )
    restore_args = ocp.checkpoint_utils.construct_restore_args(shapes)
    path = run.checkpoints.absolute() / str(step) / "state"
    try:
        with ocp.PyTreeCheckpointer() as reader:
            args = ocp.args.PyTreeRestore(shapes, restore_args=restore_args, partial_restore=True)
            return reader.restore(path, args)["params"]
    except (ValueError, OSError, KeyError) as error:
        raise CheckpointError(
            f"checkpoint must be whole and of the run's model, got {path} ({str(error).splitlines()[0]}); "
            "choose another with --step"
        ) from error
