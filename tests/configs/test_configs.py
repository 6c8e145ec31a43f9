"""Every file in configs/ loads, says what it is, is the preset of its name, and starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model import PRESETS, count_params
from training.config import load_config

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
NAMES = [path.stem for path in CONFIGS]
QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
SHRUNK = (
    "tokenizer.vocab_size=300",
    "data.mixture=natural",
    "data.min_length=32",
    "data.max_length=32",
    "data.tokens_per_step=64",
    "model.num_layers=1",
    "model.dim=32",
    "model.num_heads=2",
    "model.num_kv_heads=1",
    "model.hidden_dim=32",
    "train.num_steps=2",
    "train.sample_tokens=4",
    "train.tensorboard=false",
)
"""Sizes alone: all that makes a config what it is stays."""


@pytest.mark.parametrize("path", CONFIGS, ids=NAMES)
def test_the_header_names_command_hardware_time_and_expectation(path):
    head = path.read_text(encoding="utf-8").partition("\n\n")[0].split("\ncorpus:")[0]
    for name in ("Command:", "Hardware:", "Time:", "Expect:"):
        assert f"\n# {name}" in head


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_config_of_the_same_model(name):
    assert load_config([str(ROOT / "configs" / f"{name}.yaml")]).model == PRESETS[name]


@pytest.mark.parametrize("path", [path for path in CONFIGS if path.stem in PRESETS], ids=lambda path: path.stem)
def test_the_parameters_that_a_header_names_are_those_of_its_model(path):
    config = load_config([str(path)])
    assert f"({count_params(config.model, config.tokenizer.vocab_size):,} parameters" in path.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=NAMES)
def test_a_config_starts_with_smaller_sizes(path, small_corpus, tmp_path):
    overrides = [f"corpus.paths=[{small_corpus}]", f"data.cache={tmp_path}/cache", f"train.run={tmp_path}/run"]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": QUICK_COMPILATION}
    environment["DYADLM_COMPILE_CACHE"] = str(tmp_path / "compiled")
    command = [sys.executable, str(ROOT / "train.py"), str(path), *SHRUNK, *overrides]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == 0, result.stderr + result.stdout
    assert (tmp_path / "run" / "checkpoints" / "2").is_dir()


@pytest.fixture
def small_corpus(tmp_path):
    folder = tmp_path / "corpus"
    for repository in ("one", "two"):
        (folder / repository).mkdir(parents=True)
        for number in range(8):
            lines = [f"def {repository}_{number}_{line}(x):\n    return x + {line}\n" for line in range(number + 2)]
            (folder / repository / f"file{number}.{'py' if number % 2 else 'js'}").write_text("\n".join(lines))
    return folder
