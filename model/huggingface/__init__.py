"""Models in the format of Hugging Face transformers: a folder with config.json and safetensors."""

from model.huggingface.folder import read_config, read_model, write_model

__all__ = ["read_config", "read_model", "write_model"]
