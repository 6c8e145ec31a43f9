"""config.json of a Hugging Face Llama or Mistral, read into a LlamaConfig and written from one."""

from collections.abc import Mapping
from typing import Any

from model.config import LlamaConfig
from model.errors import ModelError

__all__ = ["from_content", "to_content"]

_SIZES = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "dim",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "head_dim": "head_dim",
    "intermediate_size": "hidden_dim",
    "rms_norm_eps": "norm_epsilon",
    "tie_word_embeddings": "tied_embeddings",
}
"""Keys whose values are those of a field."""
_ARCHITECTURES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM"}
"""Their class by model_type. A Mistral is a Llama with a window."""
_NORM_AND_HEAD = {"rms_norm_eps": 1e-6, "tie_word_embeddings": False}
_DEFAULTS = {
    "llama": {**_NORM_AND_HEAD, "sliding_window": None},
    "mistral": {**_NORM_AND_HEAD, "sliding_window": 4096, "num_key_value_heads": 8},
}
"""What transformers takes where a file is silent (LlamaConfig, MistralConfig)."""
_EXPECTED = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "quantization_config": None,
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
}
"""Keys that change what a model computes: only these values are a Llama of ours."""
_SILENT = {
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "initializer_range",
    "max_position_embeddings",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "pretraining_tp",
    "return_dict",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "vocab_size",
}
"""Keys that change nothing that is computed here, or are read apart."""
_ROPE_FIELDS = {
    "factor": "rope_factor",
    "low_freq_factor": "rope_low_frequency_factor",
    "high_freq_factor": "rope_high_frequency_factor",
    "original_max_position_embeddings": "rope_original_length",
}
_ROPE_KEYS = {"linear": ("factor",), "llama3": tuple(_ROPE_FIELDS)}
_DEFAULT_THETA = 10_000.0
_EXPORTED = (
    ("norm", "rms", "a gain-only LayerNorm before each block (Cohere's blocks are parallel, DBRX's are experts)"),
    ("qk_norm", False, "this norm in a Llama's block (OLMo-2 norms what leaves a block, OLMoE's blocks are experts)"),
    ("logits_soft_cap", 0, "a Llama's layers and a soft cap"),
)
"""Fields, what they must be, and what transformers (looked through at 5.24) does not have where they are otherwise."""


def to_content(config: LlamaConfig, vocab_size: int, max_length: int, dtype: str) -> dict[str, Any]:
    """Return the content of config.json, which transformers 4 and 5 read.

    Args:
        config: The model.
        vocab_size: Rows of its embedding.
        max_length: Longest context in tokens, for which nothing is computed differently.
        dtype: Type of the stored weights.

    Raises:
        ModelError: transformers has no architecture that computes this.
    """
    for name, needed, what in _EXPORTED:
        value = getattr(config, name)
        if value != needed:
            raise ModelError(
                f"{name} must be {str(needed).lower()} to be exported, got {str(value).lower()}; transformers has no "
                f"architecture with {what}; train with that to export, or use python -m training generate"
            )
    sizes = {key: getattr(config, field) for key, field in _SIZES.items()}
    sizes |= {"num_key_value_heads": config.kv_heads, "head_dim": config.head_width}
    sizes["intermediate_size"] = config.hidden_width
    scaling = None
    if config.rope_scaling != "none":
        keys = _ROPE_KEYS[config.rope_scaling]
        scaling = {"rope_type": config.rope_scaling} | {key: getattr(config, _ROPE_FIELDS[key]) for key in keys}
    kind = "mistral" if config.sliding_window else "llama"
    return {
        "architectures": [_ARCHITECTURES[kind]],
        "model_type": kind,
        "vocab_size": vocab_size,
        **sizes,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "max_position_embeddings": max_length,
        "rope_theta": config.rope_base,
        "rope_scaling": scaling,
        "torch_dtype": dtype,
        "use_cache": True,
    } | ({"sliding_window": config.sliding_window} if kind == "mistral" else {})


def from_content(content: Mapping[str, Any]) -> tuple[LlamaConfig, int]:
    """Return the model and the vocabulary size that a config.json describes.

    Raises:
        ModelError: a key that is unknown, missing, or of a value that a Llama here does not compute.
    """
    kind = content.get("model_type", "llama")
    if kind not in _ARCHITECTURES:
        raise ModelError(f"model_type must be {' or '.join(_ARCHITECTURES)}, got {kind!r}; only these models are read")
    expected = _EXPECTED | ({"sliding_window": None} if kind == "llama" else {})
    for key, value in content.items():
        if key in expected and value != expected[key]:
            raise ModelError(f"{key} must be {expected[key]}, got {value!r}; it is not computed in a {kind} here")
        if key not in {*_EXPECTED, *_SILENT, *_SIZES}:
            raise ModelError(
                f"config.json must hold known keys only, got {key!r} ({value!r}); it may change what the model "
                "computes, so nothing is guessed"
            )
    content = _DEFAULTS[kind] | dict(content)
    fields = {field: _read(content, key) for key, field in _SIZES.items()}
    for name in ("num_kv_heads", "head_dim"):
        fields[name] = fields[name] or 0
    fields["sliding_window"] = content["sliding_window"] or 0
    return LlamaConfig(**fields, **_rope_fields(content)), _read(content, "vocab_size")


def _read(content: Mapping[str, Any], key: str) -> Any:
    value = content.get(key)
    if value is None and key not in ("num_key_value_heads", "head_dim"):
        raise ModelError(f"config.json must hold {key}, got none; take the whole folder of the model")
    return value


def _rope_fields(content: Mapping[str, Any]) -> dict[str, Any]:
    """Read rope_parameters (transformers 5), or rope_theta and rope_scaling (before)."""
    found = dict(content.get("rope_parameters") or content.get("rope_scaling") or {})
    kind = found.pop("rope_type", found.pop("type", "default"))
    found.pop("type", None)
    base = found.pop("rope_theta", content.get("rope_theta", _DEFAULT_THETA))
    if kind == "default":
        return {"rope_base": base}
    if kind not in _ROPE_KEYS:
        raise ModelError(f"rope_type must be default, linear or llama3, got {kind!r}; other scalings are not computed")
    if set(found) != set(_ROPE_KEYS[kind]):
        raise ModelError(
            f"rope_scaling {kind} must hold {', '.join(_ROPE_KEYS[kind])}, got {', '.join(found) or 'nothing'}; "
            "take config.json as it was published"
        )
    return {"rope_base": base, "rope_scaling": kind} | {_ROPE_FIELDS[key]: value for key, value in found.items()}
