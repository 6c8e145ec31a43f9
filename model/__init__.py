"""A Flax NNX Llama behind pure functions over a plain dict of float32 arrays."""

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
