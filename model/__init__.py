"""A Flax NNX Llama behind pure functions over a plain dict of float32 arrays.

Names that need JAX are imported when first used, so that a command line can read `LlamaConfig` without it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from model.config import LlamaConfig
from model.errors import ModelError
from model.presets import PRESETS

if TYPE_CHECKING:
    from model.attention import attend
    from model.counts import count_params, flops_per_token
    from model.functions import abstract_params, cap_logits, head_weights, hidden_states, init_params, logits
    from model.generation import generate, generate_batch, stream
    from model.sampling import Sampling
    from model.sharding import batch_spec, data_axes, make_mesh, mesh_axes, param_shardings, tensor_axes

__all__ = [
    "PRESETS",
    "LlamaConfig",
    "ModelError",
    "Sampling",
    "abstract_params",
    "attend",
    "batch_spec",
    "cap_logits",
    "count_params",
    "data_axes",
    "flops_per_token",
    "generate",
    "generate_batch",
    "head_weights",
    "hidden_states",
    "init_params",
    "logits",
    "make_mesh",
    "mesh_axes",
    "param_shardings",
    "stream",
    "tensor_axes",
]

_MODULES = {
    "attention": ("attend",),
    "counts": ("count_params", "flops_per_token"),
    "functions": ("abstract_params", "cap_logits", "head_weights", "hidden_states", "init_params", "logits"),
    "generation": ("generate", "generate_batch", "stream"),
    "sampling": ("Sampling",),
    "sharding": ("batch_spec", "data_axes", "make_mesh", "mesh_axes", "param_shardings", "tensor_axes"),
}
_OWNERS = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module 'model' has no attribute {name!r}")
    return getattr(importlib.import_module(f"model.{_OWNERS[name]}"), name)
