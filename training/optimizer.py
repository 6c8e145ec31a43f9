"""AdamW with warm-up and decay, by optax."""

from typing import Any

import jax
import optax

from training.settings import OptimizerConfig

Params = dict[str, Any]


def learning_rates(config: OptimizerConfig, num_steps: int) -> optax.Schedule:
    """Learning rate as a function of the step: linear warm-up from zero, then cosine or constant."""
    warmup = min(config.warmup_steps, num_steps)
    if config.schedule == "constant":
        return optax.warmup_constant_schedule(0.0, config.learning_rate, warmup)
    return optax.warmup_cosine_decay_schedule(
        0.0, config.learning_rate, warmup, max(num_steps, warmup + 1), config.learning_rate * config.final_fraction
    )


def decay_mask(params: Params) -> Params:
    """True for each parameter that weight decay applies to: matrices other than embeddings.

    Stacked layers carry a leading layer axis, so a layer's matrix has three or more axes and a layer's gain two.
    """

    def leaf_decays(path: Any, leaf: Any) -> bool:
        return decays(jax.tree_util.keystr(path, simple=True, separator="."), leaf.ndim)

    return jax.tree.map_with_path(leaf_decays, params)


def decays(name: str, ndim: int) -> bool:
    """Whether the parameter of this dotted name and number of axes decays."""
    if "embed" in name:
        return False
    matrix_axes = 3 if name.startswith("layers.") else 2
    return ndim >= matrix_axes


def describe_decay(params: Params) -> str:
    """One line that names the parameters that decay and those that do not."""
    leaves = jax.tree.leaves_with_path(decay_mask(params))
    names = {True: [], False: []}
    for path, decayed in leaves:
        names[decayed].append(jax.tree_util.keystr(path, simple=True, separator="."))
    return f"weight decay on {', '.join(names[True])}; not on {', '.join(names[False])}"


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """Gradient clipping by global norm, then the direction of AdamW (Loshchilov and Hutter 2019), in float32.

    The step multiplies the direction by minus the learning rate, which is a function of the step alone.
    """
    clip = [optax.clip_by_global_norm(config.clip_norm)] if config.clip_norm else []
    adam = optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.epsilon)
    return optax.chain(*clip, adam, optax.add_decayed_weights(config.weight_decay, mask=decay_mask))
