"""The parameters of a Llama by their names in Hugging Face's LlamaForCausalLM.

A matrix is [outputs, inputs] there and [layers, inputs, outputs] here. Rotary halves lie alike, so nothing is permuted.
"""

from collections.abc import Callable, Set
from typing import NamedTuple

import numpy as np

from model.config import LlamaConfig
from model.errors import ModelError
from model.functions import Params, abstract_params

__all__ = ["gather_params", "get_tensor", "tensor_names", "tensor_size"]


class _Place(NamedTuple):
    path: tuple[str, ...]  # in the nested dict of parameters
    is_matrix: bool  # stored the other way round


_LAYER = {
    "input_layernorm": _Place(("attention_norm", "gain"), False),
    "self_attn.q_proj": _Place(("query",), True),
    "self_attn.k_proj": _Place(("key",), True),
    "self_attn.v_proj": _Place(("value",), True),
    "self_attn.o_proj": _Place(("attention_output",), True),
    "post_attention_layernorm": _Place(("feed_forward_norm", "gain"), False),
    "mlp.gate_proj": _Place(("gate",), True),
    "mlp.up_proj": _Place(("up",), True),
    "mlp.down_proj": _Place(("down",), True),
}
_TOP = {
    "model.embed_tokens.weight": _Place(("embedding",), False),
    "model.norm.weight": _Place(("final_norm", "gain"), False),
    "lm_head.weight": _Place(("head",), False),
}


def tensor_names(config: LlamaConfig) -> list[str]:
    """The names of all tensors, in the order of the layers."""
    top = [name for name in _TOP if name != "lm_head.weight" or not config.tied_embeddings]
    return [top[0], *(_layer_name(index, part) for index in range(config.num_layers) for part in _LAYER), *top[1:]]


def tensor_size(params: Params, name: str) -> int:
    """How many values a tensor has."""
    place, layer = _find(name)
    value = _get(params if layer is None else params["layers"], place.path)
    return value.size if layer is None else value.size // len(value)


def get_tensor(params: Params, name: str) -> np.ndarray:
    """Return a tensor (float32), on the host."""
    place, layer = _find(name)
    value = _get(params if layer is None else params["layers"], place.path)
    value = np.asarray(value if layer is None else value[layer])
    return np.ascontiguousarray(value.T) if place.is_matrix else value


def gather_params(read: Callable[[str], np.ndarray], names: Set[str], config: LlamaConfig, vocab_size: int) -> Params:
    """Return float32 parameters from tensors, of which `read` gives each by its name.

    Raises:
        ModelError: tensors are missing, too many, or of another shape than the config says.
    """
    expected = set(tensor_names(config))
    if config.tied_embeddings:
        names = names - {"lm_head.weight"}  # a copy that some files keep
    names = {name for name in names if not name.endswith("rotary_emb.inv_freq")}  # derived from the config
    for kind, differing in (("are missing", expected - names), ("are unknown", names - expected)):
        if differing:
            raise ModelError(
                f"tensors must be those of config.json, {len(differing)} {kind}, first {min(differing)}; take config "
                "and weights from one folder"
            )
    params = _empty(abstract_params(config, vocab_size))
    for name in tensor_names(config):
        place, layer = _find(name)
        target = _get(params if layer is None else params["layers"], place.path)
        target = target if layer is None else target[layer]
        tensor = read(name)
        shape = target.T.shape if place.is_matrix else target.shape
        if tensor.shape != shape:
            raise ModelError(f"{name} must be of shape {list(shape)}, got {list(tensor.shape)}; config.json says so")
        target[...] = tensor.T if place.is_matrix else tensor
    return params


def _layer_name(index: int, part: str) -> str:
    return f"model.layers.{index}.{part}.weight"


def _find(name: str) -> tuple[_Place, int | None]:
    """Return where a tensor belongs and in which layer."""
    if name in _TOP:
        return _TOP[name], None
    index, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
    return _LAYER[part], int(index)


def _get(params: Params, path: tuple[str, ...]) -> np.ndarray:
    value = params
    for key in path:
        value = value[key]
    return value  # type: ignore[return-value]


def _empty(shapes: Params) -> Params:
    return {
        name: _empty(value) if isinstance(value, dict) else np.empty(value.shape, value.dtype)
        for name, value in shapes.items()
    }
