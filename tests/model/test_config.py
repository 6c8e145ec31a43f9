import subprocess
import sys
from pathlib import Path

import pytest

import model
from model import LlamaConfig, ModelError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_layers": 0}, "num_layers must be at least 1, got 0; set model.num_layers"),
        ({"dim": 100, "num_heads": 3}, "dim must be a multiple of num_heads 3, got 100; "),
        ({"num_heads": 12, "num_kv_heads": 5}, "num_kv_heads must be a divisor of num_heads 12, got 5; "),
        ({"dim": 12, "num_heads": 4}, "head width must be even, got 3; "),
        ({"rope_base": 0.0}, "rope_base must be above 0 and finite, got 0.0; "),
        ({"norm_epsilon": float("nan")}, "norm_epsilon must be above 0 and finite, got nan; "),
        ({"rope_high_frequency_factor": 1.0}, "rope_high_frequency_factor must be above rope_low_frequency_factor 1.0"),
        ({"sliding_window": -1}, "sliding_window must be 0 (all) or more tokens, got -1; set model.sliding_window"),
        ({"logits_soft_cap": float("inf")}, "logits_soft_cap must be 0 (none) or more, got inf; "),
        ({"norm": "batch"}, "norm must be rms or layer, got batch; "),
        ({"remat": "some"}, "remat must be none, dots or layer, got some; "),
    ],
)
def test_bad_setting_is_refused_in_one_line(settings, message):
    with pytest.raises(ModelError) as raised:
        LlamaConfig(**settings)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("dim", "hidden"), [(768, 2048), (128, 384), (96, 256), (192, 512)])
def test_hidden_width_is_eight_thirds_in_steps_of_64(dim, hidden):
    assert LlamaConfig(dim=dim, num_heads=4).hidden_width == hidden


def test_derived_sizes_follow_unless_given():
    config = LlamaConfig(dim=768, num_heads=12)
    assert (config.head_width, config.kv_heads) == (64, 12)
    config = LlamaConfig(dim=768, num_heads=12, num_kv_heads=4, head_dim=32, hidden_dim=100)
    assert (config.head_width, config.kv_heads, config.hidden_width) == (32, 4, 100)


def test_settings_can_be_read_without_importing_jax():
    code = "import sys, model; model.LlamaConfig(); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_every_public_name_is_there():
    assert all(getattr(model, name) is not None for name in model.__all__)
