"""Learning rates as functions of the step alone."""

import math

from training.optimizers.config import OptimizerConfig

__all__ = ["learning_rate"]


def learning_rate(config: OptimizerConfig, num_steps: int, step: int) -> float:
    """Learning rate at a step, counted from 0: linear warm-up from zero, then what config.schedule says.

    It is worked out on the host and given to the compiled step, which so serves every schedule and number of steps. The
    last rate is reached at `num_steps`, one step after the last that is taken.
    wsd is the warmup-stable-decay of Hu et al. 2024 (arXiv:2404.06395), with the linear decay of Hägele et al. 2024
    (arXiv:2405.18392).
    """
    peak, last = config.learning_rate, config.learning_rate * config.final_fraction
    warmup = min(config.warmup_steps, num_steps)
    end = max(num_steps, warmup + 1)
    if step < warmup:
        return peak * step / warmup
    if config.schedule == "constant":
        return peak
    start = warmup
    if config.schedule == "wsd":
        start = max(warmup, end - max(1, round(config.decay_fraction * end)))
    done = min(max(step - start, 0) / (end - start), 1.0)
    if config.schedule == "cosine":
        done = (1 - math.cos(math.pi * done)) / 2
    return peak + (last - peak) * done
