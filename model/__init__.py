"""A Flax NNX Llama behind pure functions over a plain dict of float32 arrays.

Names are imported when first used, so that reading a config does not import jax.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.attention import attend
    from model.config import LlamaConfig
    from model.counts import count_params, flops_per_token
    from model.errors import ModelError
    from model.functions import abstract_params, head_weights, hidden_states, init_params, logits
    from model.generation import generate, stream
    from model.presets import PRESETS
    from model.sampling import Sampling
    from model.sharding import batch_spec, make_mesh, param_shardings

__all__ = [
    "PRESETS",
    "LlamaConfig",
    "ModelError",
    "Sampling",
    "abstract_params",
    "attend",
    "batch_spec",
    "count_params",
    "flops_per_token",
    "generate",
    "head_weights",
    "hidden_states",
    "init_params",
    "logits",
    "make_mesh",
    "param_shardings",
    "stream",
]

_MODULES = {
    "PRESETS": "presets",
    "LlamaConfig": "config",
    "ModelError": "errors",
    "Sampling": "sampling",
    "abstract_params": "functions",
    "attend": "attention",
    "batch_spec": "sharding",
    "count_params": "counts",
    "flops_per_token": "counts",
    "generate": "generation",
    "head_weights": "functions",
    "hidden_states": "functions",
    "init_params": "functions",
    "logits": "functions",
    "make_mesh": "sharding",
    "param_shardings": "sharding",
    "stream": "generation",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'model' has no attribute {name!r}")
    return getattr(import_module(f"model.{_MODULES[name]}"), name)
