"""Models and compiled train steps to measure, made as train.py makes them but without documents."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from model import LlamaConfig

__all__ = ["MODELS", "MeasuredModel", "make_state", "open_recipe", "random_batch"]


class MeasuredModel(NamedTuple):
    """An architecture that Hugging Face Llama has too, with its vocabulary."""

    config: LlamaConfig
    vocab_size: int


MODELS = {
    "tiny": MeasuredModel(LlamaConfig(num_layers=2, dim=32, num_heads=2, hidden_dim=64), 128),
    "small": MeasuredModel(LlamaConfig(num_layers=4, dim=256, num_heads=4, hidden_dim=704), 8192),
    "medium": MeasuredModel(LlamaConfig(num_layers=8, dim=512, num_heads=8, hidden_dim=1408), 16_384),
    "llama-100m": MeasuredModel(LlamaConfig(num_layers=10, dim=768, num_heads=12, hidden_dim=2048), 32_768),
}
"""Models by name: 7.4, 42 and 121 million parameters, and one that is there to be quick."""

STEPS_PLANNED = 1000
"""Steps of the learning-rate schedule, constant after its warm-up."""


class Vocabulary(NamedTuple):
    """As much of a tokenizer as a recipe asks for."""

    vocab_size: int


def open_recipe(
    config: LlamaConfig, vocab_size: int, *, max_length: int, tokens_per_step: int, cache: Path | None, **optimizer: Any
) -> Any:
    """The `Recipe` of train.py with these settings, on all devices; compiled steps are kept in `cache`, if given."""
    if cache is not None:
        os.environ["DYADLM_COMPILE_CACHE"] = str(cache)
    from training import devices
    from training.config import Config
    from training.step import make_recipe

    base = Config(model=config)
    data = replace(base.data, min_length=min(64, max_length), max_length=max_length, tokens_per_step=tokens_per_step)
    settings = replace(base, data=data, optimizer=replace(base.optimizer, **optimizer))
    mesh = devices.start(settings.distributed)
    return make_recipe(settings, mesh, cast(Any, Vocabulary(vocab_size)), np.dtype(np.uint16), STEPS_PLANNED)


def make_state(recipe: Any, params: Any = None) -> Any:
    """The state of step 0 on the devices, as a fresh run has it, or with the given parameters."""
    import jax

    from training.step import abstract_state, init_state

    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract_state(recipe))
    state = jax.jit(lambda key: init_state(recipe, key), out_shardings=shardings)(jax.random.key(0))
    if params is not None:
        # Copies: the step donates its state.
        state["params"] = jax.tree.map(
            lambda array, sharding: jax.device_put(np.array(array), sharding), params, shardings["params"]
        )
    return state


def random_batch(vocab_size: int, rows: int, length: int, seed: int) -> dict[str, np.ndarray]:
    """uint16 inputs and targets [rows, length], frequent ids first as in text, and weights of 1."""
    ids = np.random.default_rng(seed).zipf(1.2, (rows, length + 1)) % vocab_size
    tokens = ids.astype(np.uint16)
    return {
        "inputs": np.ascontiguousarray(tokens[:, :-1]),
        "targets": np.ascontiguousarray(tokens[:, 1:]),
        "weights": np.ones(rows, np.float32),
    }
