"""Weights of a run, apart from how it is trained: read from its newest checkpoint, written as a run of their own."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from etils import epath

import model
from model import LlamaConfig
from tokenizer import Tokenizer
from tokenizer.output import check_owner, check_writable
from tokenizer.output_folder import new_folder
from training.checkpoint import items_of, read_origin, restore_params
from training.checkpoint_folder import checkpoint_folder, committed_steps
from training.config import Config, load_config
from training.errors import TrainingError
from training.run import Run

__all__ = [
    "Weights",
    "check_new_folder",
    "check_tokenizer",
    "find_checkpoint",
    "fit_rows",
    "is_run",
    "name_run_of",
    "open_run",
    "read_weights",
    "write_weights",
]


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
    """Read a run's weights onto the default device; their moving average, where it was trained with one.

    Args:
        folder: The run.
        step: A checkpoint's; the newest without it.

    Raises:
        TrainingError: the folder is no run, has no such checkpoint, or a damaged one.
    """
    config, tokenizer = open_run(folder)
    step, place = find_checkpoint(folder, config, step, "--step")
    check_tokenizer(place, folder, tokenizer)
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        model.abstract_params(config.model, tokenizer.vocab_size),
    )
    others = ", ".join(str(other) for other in committed_steps(place.parent) if other != step) or "there is no other"
    params = restore_params(place, shapes, f"choose another with --step ({others})")
    return Weights(params, config, tokenizer, step)


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / "config.yaml").is_file() and (folder / "tokenizer").is_dir()


def open_run(folder: Path) -> tuple[Config, Tokenizer]:
    """The settings and the tokenizer of a run.

    Raises:
        TrainingError: the folder is no run.
    """
    if not is_run(folder):
        raise TrainingError(
            f"run must be a folder with config.yaml and tokenizer/, got {folder}; {name_run_of(folder)}"
        )
    return load_config([str(folder / "config.yaml")]), Tokenizer.load(Run(folder).tokenizer)


def name_run_of(place: Path) -> str:
    """How to mend a place that is no run: by the run that it lies in, else by training one."""
    folder = next((folder for folder in place.absolute().parents if is_run(folder)), None)
    if folder is None:
        return "train one with python train.py"
    is_checkpoint = place.absolute().parent == Run(folder).checkpoints.absolute() and place.name.isdigit()
    return f"name the run, {folder}" + f", and its checkpoint with --step {place.name}" * is_checkpoint


def find_checkpoint(folder: Path, config: Config, step: int | None, option: str) -> tuple[int, epath.Path]:
    """The step and the place of a run's checkpoint, the newest without a step; `option` chooses another.

    Raises:
        TrainingError: there is no such checkpoint.
    """
    # A run that was moved has its checkpoints with it, unless they were somewhere else all the time.
    checkpoints = checkpoint_folder(Run(folder), config.train)
    steps = committed_steps(checkpoints)
    if step is None and steps:
        step = steps[-1]
    if step is None or step not in steps:
        expected = ", ".join(map(str, steps)) or "none yet"
        raise TrainingError(
            f"step must be that of a checkpoint ({expected}) of {folder}, got {step}; choose one with {option}"
        )
    return step, checkpoints / str(step)


def check_tokenizer(place: epath.Path, folder: Path, tokenizer: Tokenizer) -> None:
    """Refuse the weights of a checkpoint with another tokenizer than they were trained with.

    Raises:
        TrainingError: the run's tokenizer was replaced.
    """
    fingerprint, rows = read_origin(place)
    pairs = {
        "vocabulary": (rows, tokenizer.vocab_size, " tokens"),
        "tokenizer": (fingerprint, tokenizer.fingerprint, ""),
    }
    for name, (was, now, unit) in pairs.items():
        if was not in (None, now):
            raise TrainingError(
                f"{name} must be that of checkpoint {place}, {was}{unit}, got {now}{unit}: {Run(folder).tokenizer} was "
                "replaced; put the tokenizer of the run back there"
            )


def write_weights(folder: Path, params: dict[str, Any], config: LlamaConfig, tokenizer: Tokenizer) -> None:
    """Make a run at step 0 of weights from elsewhere: beside its place, which it takes when it is whole.

    Raises:
        TrainingError: the folder has something else in it.
    """
    check_new_folder(folder)
    whole = Config(model=config)
    own = dataclasses.replace(whole.tokenizer, path=str(Run(folder).tokenizer))
    with new_folder(folder) as beside:
        run = Run(beside)
        tokenizer.save(run.tokenizer)
        with ocp.CheckpointManager(run.checkpoints.absolute()) as manager:
            manager.save(0, args=items_of({"params": params}))
        run.write_config(dataclasses.replace(whole, tokenizer=own), place=folder)
        check_new_folder(folder)  # still: what has come there meanwhile would go


def check_new_folder(folder: Path) -> None:
    """Raise TrainingError or TokenizerError where something stands already, others own, or nothing can be written."""
    check_writable(folder)
    check_owner(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise TrainingError(f"output must be a new or empty folder, got {folder}; choose another with --output")


def fit_rows(params: dict[str, Any], num_rows: int) -> dict[str, Any]:
    """Give the embeddings this number of rows: the last ones are cut off, or new ones are the mean of all."""

    def fit(table_VD: jax.Array) -> jax.Array:
        kept = jnp.asarray(table_VD)[:num_rows]
        mean = jnp.broadcast_to(kept.mean(axis=0), (num_rows - len(kept), kept.shape[1]))
        return jnp.concatenate([kept, mean])

    return params | {name: fit(params[name]) for name in ("embedding", "head") if name in params}
