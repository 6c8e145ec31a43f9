"""The direction in which an optimizer moves the parameters, as an optax transformation."""

import functools
from typing import Any

import jax
import optax
from optax.contrib import MuonDimensionNumbers, scale_by_muon

from training.optimizers.config import OptimizerConfig
from training.optimizers.groups import decay_mask, layer_matrices

__all__ = ["make_optimizer"]


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """Gradient clipping by global norm, the direction of config.name, and decoupled weight decay, in float32.

    The step multiplies the direction by minus the learning rate, which is a function of the step alone.
    - adamw: Loshchilov and Hutter 2019 (arXiv:1711.05101).
    - lion: Chen et al. 2023 (arXiv:2302.06675), algorithm 2.
    - muon: Jordan et al. 2024, with the scale of Liu et al. 2025 (arXiv:2502.16982, equation 4).
    """
    clip = [optax.clip_by_global_norm(config.clip_norm)] if config.clip_norm else []
    mask = functools.partial(decay_mask, decayed=config.weight_decay_on)
    decay = optax.add_decayed_weights(config.weight_decay, mask=mask)
    if config.name == "muon":
        return optax.chain(*clip, _muon(config), decay, _scale_adam(config.muon_adam_factor))
    if config.name == "lion":
        return optax.chain(*clip, optax.scale_by_lion(b1=config.beta1, b2=config.lion_momentum), decay)
    return optax.chain(*clip, _adam(config), decay)


def _adam(config: OptimizerConfig) -> optax.GradientTransformation:
    return optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.epsilon)


def _muon(config: OptimizerConfig) -> optax.GradientTransformation:
    """Muon for the matrices of the layers, each by itself; AdamW for the rest."""
    orthogonal = optax.chain(
        scale_by_muon(beta=config.muon_momentum, weight_dimension_numbers=_axes),
        _scale_matrices(config.muon_rms),
    )
    return optax.partition({"muon": orthogonal, "adam": _adam(config)}, _takers)


def _takers(params: Any) -> Any:
    return jax.tree.map(lambda is_muon: "muon" if is_muon else "adam", layer_matrices(params))


def _axes(params: Any) -> Any:
    """Layers are a batch of matrices: Newton-Schulz iterates on each."""
    return jax.tree.map(lambda _: MuonDimensionNumbers(reduction_axis=-2, output_axis=-1), params)


def _scale_matrices(rms: float) -> optax.GradientTransformation:
    """Give an orthogonal [..., inputs, outputs] matrix this root mean square, or Jordan's own scale where it is 0."""

    def scale(matrix: jax.Array) -> jax.Array:
        inputs, outputs = matrix.shape[-2:]
        return matrix * (rms * max(inputs, outputs) ** 0.5 if rms else max(1.0, outputs / inputs) ** 0.5)

    return optax.stateless(lambda updates, params: jax.tree.map(scale, updates))


def _scale_adam(factor: float) -> optax.GradientTransformation:
    """The learning rate of what AdamW takes, as a multiple of the others'; its weight decay too."""
    return optax.masked(
        optax.scale(factor), lambda params: jax.tree.map(lambda taker: taker == "adam", _takers(params))
    )
