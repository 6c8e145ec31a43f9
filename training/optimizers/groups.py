"""Which parameters decay, and which ones Muon takes: by name and number of axes.

Stacked layers carry a leading layer axis, so a layer's matrix has three axes and a layer's gain two.
"""

from collections.abc import Callable
from typing import Any

import jax

from training.optimizers.config import OptimizerConfig

__all__ = ["decay_mask", "decays", "describe_groups", "is_layer_matrix", "layer_matrices"]

Params = dict[str, Any]


def decay_mask(params: Params, decayed: str = "matrices") -> Params:
    """True for each parameter that weight decay applies to; `decayed` as in optimizer.weight_decay_on."""
    return _mask(params, lambda name, ndim: decays(name, ndim, decayed))


def layer_matrices(params: Params) -> Params:
    """True for each parameter that is a stack of matrices, one a layer."""
    return _mask(params, is_layer_matrix)


def decays(name: str, ndim: int, decayed: str = "matrices") -> bool:
    """Whether the parameter of this dotted name and number of axes decays.

    >>> decays("embedding", 2), decays("embedding", 2, "matrices-and-embeddings"), decays("layers.down", 3)
    (False, True, True)
    """
    if decayed == "all":
        return True
    if "embed" in name:
        return decayed == "matrices-and-embeddings"
    return ndim >= (3 if name.startswith("layers.") else 2)


def is_layer_matrix(name: str, ndim: int) -> bool:
    """Whether it holds the layers' matrices [layers, inputs, outputs] of one kind."""
    return name.startswith("layers.") and ndim == 3


def describe_groups(config: OptimizerConfig, params: Params) -> list[str]:
    """Lines that name the parameters that decay and those that do not, and under muon who moves what."""
    lines = [_describe("weight decay on", "not on", decay_mask(params, config.weight_decay_on))]
    if config.name == "muon":
        lines.append(_describe("muon for", "adamw for", layer_matrices(params)))
    return lines


def _mask(params: Params, is_in: Callable[[str, int], bool]) -> Params:
    return jax.tree.map_with_path(lambda path, leaf: is_in(_name(path), leaf.ndim), params)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _describe(those_in: str, others: str, mask: Params) -> str:
    names: dict[bool, list[str]] = {True: [], False: []}
    for path, is_in in jax.tree.leaves_with_path(mask):
        names[is_in].append(_name(path))
    parts = [f"{what} {', '.join(names[is_in])}" for is_in, what in ((True, those_in), (False, others)) if names[is_in]]
    return "; ".join(parts)
