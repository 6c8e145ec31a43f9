"""Where a run starts: at parameters drawn from its seed, or at those of another run or a Hugging Face folder."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
from etils import epath

from model import LlamaConfig
from model.huggingface import read_config, read_model
from tokenizer import Tokenizer
from training.checkpoint import restore_params
from training.errors import TrainingError
from training.position import model_differences
from training.settings import TrainConfig
from training.step import Recipe, State, abstract_state, init_state, state_of
from training.weights import check_tokenizer, find_checkpoint, is_run, open_run

_MEND = "change the settings, or choose other weights with train.initial_weights=..."


def starting_state(recipe: Recipe, config: TrainConfig, tokenizer: Tokenizer) -> State:
    """The state before the first step, on the mesh of the recipe.

    Raises:
        TrainingError: train.initial_weights is no place of weights, or of another model, tokenizer or vocabulary.
    """
    abstract = abstract_state(recipe)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
    if config.initial_weights is None:
        init = jax.jit(lambda key: init_state(recipe, key), out_shardings=shardings)
        return init(jax.random.key(config.seed))
    params = read_initial_weights(Path(config.initial_weights), recipe.model, tokenizer, abstract["params"])
    return jax.jit(lambda params: state_of(recipe, params), out_shardings=shardings, donate_argnums=0)(params)


def read_initial_weights(source: Path, config: LlamaConfig, tokenizer: Tokenizer, shapes: Any) -> Any:
    """Parameters from elsewhere, read straight onto the devices that `shapes` (with shardings) say.

    Args:
        source: A run (its newest checkpoint), RUN/checkpoints/STEP, or a Hugging Face folder.
        config: The model that they are for.
        tokenizer: The tokenizer that they are for.
        shapes: Nested dict of ShapeDtypeStruct.

    Raises:
        TrainingError: as `find_initial_weights`, or they are damaged.
    """
    place = find_initial_weights(source, config, tokenizer)
    if place is not None:
        return restore_params(place, shapes, _MEND)
    params, _ = read_model(source)
    return jax.tree.map(_place, params, shapes)


def find_initial_weights(source: Path, config: LlamaConfig, tokenizer: Tokenizer) -> epath.Path | None:
    """The checkpoint that holds the weights, None for a Hugging Face folder; reads none of them.

    Raises:
        TrainingError: the source is no place of weights, or of another model, tokenizer or vocabulary.
    """
    if not is_run(source) and (source / "config.json").is_file():
        theirs, rows = read_config(source)
        check_origin(source, (theirs, Tokenizer.from_huggingface(source).fingerprint, rows), config, tokenizer)
        return None
    is_checkpoint = source.name.isdigit() and source.parent.name == "checkpoints"
    folder, step = (source.parents[1], int(source.name)) if is_checkpoint else (source, None)
    if not is_run(folder):
        raise TrainingError(
            "train.initial_weights must be a run, RUN/checkpoints/STEP or a folder of a Hugging Face Llama, got "
            f"{source}; give a folder with config.yaml and tokenizer/, or with config.json and safetensors"
        )
    run, coder = open_run(folder)
    check_origin(source, (run.model, coder.fingerprint, coder.vocab_size), config, tokenizer)
    place = find_checkpoint(folder, run, step, "train.initial_weights=RUN/checkpoints/STEP")[1]
    check_tokenizer(place, folder, coder)
    return place


def check_origin(source: Path, origin: tuple[LlamaConfig, str, int], config: LlamaConfig, tokenizer: Tokenizer) -> None:
    """Refuse weights of another vocabulary, tokenizer (`origin`: model, fingerprint, rows) or architecture.

    Raises:
        TrainingError: names what differs, and both values.
    """
    theirs, fingerprint, rows = origin
    pairs = {
        "vocabulary": (f"{rows:,} tokens", f"{tokenizer.vocab_size:,} tokens"),
        "tokenizer": (fingerprint, tokenizer.fingerprint),
        "model": model_differences(architecture(theirs), architecture(config)),
    }
    for name, (was, now) in pairs.items():
        if was != now:
            raise TrainingError(f"{name} must be that of {source}, {was}, got {now}; {_MEND}")


def architecture(config: LlamaConfig) -> str:
    """What parameters mean, without how they are computed; sizes that are derived are spelled out."""
    default = LlamaConfig()
    return repr(
        dataclasses.replace(
            config,
            num_kv_heads=config.kv_heads,
            head_dim=config.head_width,
            hidden_dim=config.hidden_width,
            dtype=default.dtype,
            remat=default.remat,
            attention=default.attention,
        )
    )


def _place(array: Any, shape: jax.ShapeDtypeStruct) -> jax.Array:
    return jax.make_array_from_callback(shape.shape, shape.sharding, lambda index: array[index])
