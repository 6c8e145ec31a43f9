"""Learning rates as functions of the step alone."""

import optax

from training.optimizers.config import OptimizerConfig

__all__ = ["learning_rates"]


def learning_rates(config: OptimizerConfig, num_steps: int) -> optax.Schedule:
    """Learning rate (float32) at a step, counted from 0: linear warm-up from zero, then what config.schedule says.

    The last rate is reached at `num_steps`, one step after the last that is taken.
    wsd is the warmup-stable-decay of Hu et al. 2024 (arXiv:2404.06395), with the linear decay of Hägele et al. 2024
    (arXiv:2405.18392).
    """
    peak, last = config.learning_rate, config.learning_rate * config.final_fraction
    warmup = min(config.warmup_steps, num_steps)
    end = max(num_steps, warmup + 1)
    if config.schedule == "cosine":
        return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, end, last)
    rising, stable = optax.linear_schedule(0.0, peak, warmup), optax.constant_schedule(peak)
    if config.schedule == "constant":
        return optax.join_schedules([rising, stable], [warmup])
    decay_start = warmup
    if config.schedule == "wsd":
        decay_start = max(warmup, end - max(1, round(config.decay_fraction * end)))
    falling = optax.linear_schedule(peak, last, end - decay_start)
    return optax.join_schedules([rising, stable, falling], [warmup, decay_start])
