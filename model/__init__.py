"""A Flax NNX Llama behind pure functions over a plain dict of float32 arrays."""

from model.config import LlamaConfig
from model.errors import ModelError

__all__ = ["LlamaConfig", "ModelError"]
