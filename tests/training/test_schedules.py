import math

import numpy as np
import optax
import pytest

from training.optimizers.config import OptimizerConfig
from training.optimizers.schedules import learning_rate


def rates(config, num_steps, last):
    return np.array([learning_rate(config, num_steps, step) for step in range(last + 1)])


def by_hand(config, num_steps, step):
    """The closed forms, in float64."""
    peak, last = config.learning_rate, config.learning_rate * config.final_fraction
    warmup = config.warmup_steps
    if step < warmup:
        return peak * step / warmup
    if config.schedule == "constant":
        return peak
    start = round((1 - config.decay_fraction) * num_steps) if config.schedule == "wsd" else warmup
    share = min(max((step - start) / (num_steps - start), 0), 1)
    if config.schedule == "cosine":
        return last + (peak - last) * (1 + math.cos(math.pi * share)) / 2
    return peak + (last - peak) * share


@pytest.mark.parametrize("final_fraction", [0.0, 0.1])
@pytest.mark.parametrize("warmup_steps", [0, 10])
@pytest.mark.parametrize("schedule", ["cosine", "constant", "linear", "wsd"])
def test_rates_are_those_of_the_closed_form(schedule, warmup_steps, final_fraction):
    config = OptimizerConfig(
        learning_rate=0.5, schedule=schedule, warmup_steps=warmup_steps, final_fraction=final_fraction
    )
    expected = [by_hand(config, 100, step) for step in range(121)]
    np.testing.assert_allclose(rates(config, 100, 120), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("warmup_steps", [0, 7, 50])
@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_rates_are_those_of_optax(schedule, warmup_steps):
    peak, last, num_steps = 3e-3, 3e-4, 50
    rising, end = min(warmup_steps, num_steps), max(num_steps, warmup_steps + 1)
    after = {
        "cosine": optax.cosine_decay_schedule(peak, end - rising, last / peak),
        "linear": optax.linear_schedule(peak, last, end - rising),
        "constant": optax.constant_schedule(peak),
    }
    peer = optax.join_schedules([optax.linear_schedule(0.0, peak, rising), after[schedule]], [rising])
    expected = np.array([np.asarray(peer(step)) for step in range(num_steps + 5)])
    config = OptimizerConfig(learning_rate=peak, schedule=schedule, warmup_steps=warmup_steps)
    np.testing.assert_allclose(rates(config, num_steps, num_steps + 4), expected, rtol=1e-5, atol=1e-9)


def test_rates_of_wsd_do_not_depend_on_the_end_before_the_decay():
    config = OptimizerConfig(schedule="wsd", warmup_steps=10, decay_fraction=0.25)
    short, long = rates(config, 100, 100), rates(config, 400, 400)
    np.testing.assert_array_equal(short[:76], long[:76])
    assert short[76] < long[76]


@pytest.mark.parametrize("schedule", ["cosine", "constant", "linear", "wsd"])
def test_a_run_shorter_than_the_warmup_only_warms_up(schedule):
    config = OptimizerConfig(learning_rate=1.0, schedule=schedule, warmup_steps=100)
    np.testing.assert_allclose(rates(config, 4, 3), np.arange(4) / 4)


def test_the_decay_of_wsd_never_begins_before_the_warmup_ends():
    config = OptimizerConfig(learning_rate=1.0, schedule="wsd", warmup_steps=50, decay_fraction=1.0, final_fraction=0.0)
    found = rates(config, 100, 100)
    assert found.argmax() == 50
    np.testing.assert_allclose(found[50:], 1 - np.arange(51) / 50, atol=1e-6)
