import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tokenizer.option_types import option_types
from training.config import Config, build_config, config_digest, config_yaml, load_config, read_yaml
from training.errors import ConfigError

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_config_loads_and_says_what_to_expect(path):
    config = load_config([str(path)])
    assert config.train.num_steps is None or config.train.num_steps > 0
    header = "".join(line for line in path.read_text().splitlines(keepends=True) if line.startswith("#"))
    for word in ("Command:", "Hardware:", "Time:", "Expect:"):
        assert word in header


def test_command_line_wins_over_yaml_and_both_spellings_are_the_same(tmp_path):
    path = str(write(tmp_path, "model: {num_layers: 3}\ntrain: {num_steps: 1e3}\n"))
    config = load_config([path, "model.num_layers=2"])
    assert (config.model.num_layers, config.train.num_steps) == (2, 1000)
    assert load_config([path, "--model.num-layers", "2"]) == config
    assert load_config([path, "--model.num_layers=2"]) == config


def test_lists_maps_and_null_can_be_written_on_the_command_line(tmp_path):
    path = str(write(tmp_path, ""))
    config = load_config([path, "corpus.paths=[a b, 'c,d']", "train.num_steps=null", "data.mixture={64: 1e6, 128: 3}"])
    assert config.corpus.paths == ("a b", "c,d")
    assert config.train.num_steps is None
    assert config.data.mixture == {64: 1_000_000, 128: 3}


@pytest.mark.parametrize(
    ("yaml_text", "override", "message"),
    [
        ("model: {num_layer: 2}", "model.num_layer=2", "did you mean model.num_layers?"),
        ("num_layers: 2", "num_layers=2", "did you mean model.num_layers?"),
        ("modle: {num_layers: 2}", "modle.num_layers=2", "did you mean model.num_layers?"),
        ("model: {num_layers: two}", "model.num_layers=two", "model.num_layers must be a whole number, got 'two'"),
        ("model: {num_layers: -1}", "model.num_layers=-1", "num_layers must be at least 1, got -1"),
        ("model: {tied_embeddings: yes}", "model.tied_embeddings=yes", "true or false, got 'yes'"),
        ("data: {min_length: 100}", "data.min_length=100", "data.min_length=128"),
        ("optimizer: {beta1: 1}", "optimizer.beta1=1", "optimizer.beta1 must be at least 0 and below 1"),
        ("optimizer: {schedule: steps}", "optimizer.schedule=steps", "one of cosine, constant, linear, wsd"),
        ("train: {num_steps: [1, 2]}", "train.num_steps=[1, 2]", "a whole number or null"),
    ],
)
def test_bad_settings_say_the_same_from_yaml_and_from_the_command_line(tmp_path, yaml_text, override, message):
    in_yaml, empty = write(tmp_path, yaml_text), tmp_path / "empty.yaml"
    empty.write_text("")
    for arguments in ([str(in_yaml)], [str(empty), override]):
        with pytest.raises(ConfigError) as caught:
            load_config(arguments)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {num_layers: 2, num_layers: 3}", "a.yaml:1: model.num_layers must be given once"),
        ("\nmodel:\n  dim: 8\nmodel:\n  dim: 9\n", "a.yaml:5: model.dim must be given once"),
        ("model:\n  - 1\n", "a.yaml:1: model must be a map of settings"),
        ("- 1\n", "a.yaml:1: must be a map of settings"),
        ("a: [1\nb: 2\n", "a.yaml:2: must be YAML"),
        ("model: 3\n", "a.yaml:1: model must be a map of settings"),
    ],
)
def test_yaml_faults_name_file_and_line(tmp_path, text, message):
    with pytest.raises(ConfigError) as caught:
        build_config(read_yaml(write(tmp_path, text)))
    assert message in str(caught.value)


def test_missing_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="must be a readable file"):
        load_config([str(tmp_path / "none.yaml")])


@pytest.mark.parametrize("argument", ["demo", "--model.dim", "a.toml"])
def test_other_arguments_are_refused(argument):
    with pytest.raises(ConfigError):
        load_config([argument])


def test_resolved_config_reads_back_equal(tmp_path):
    config = load_config([str(CONFIGS[0]), "data.mixture={64: 5e6}", "data.curriculum=uniform"])
    path = write(tmp_path, config_yaml(config))
    assert load_config([str(path)]) == config
    assert set(yaml.safe_load(path.read_text())) == {key.split(".")[0] for key in option_types(Config)}


def test_digest_leaves_out_which_process_it_is():
    config = [str(CONFIGS[0])]
    explicit = ["distributed.mode=explicit", "distributed.coordinator=localhost:1", "distributed.num_processes=2"]
    digests = {config_digest(load_config([*config, *explicit, f"distributed.process_id={i}"])) for i in (0, 1)}
    assert digests == {config_digest(load_config(config))}
    assert config_digest(load_config([*config, "train.seed=1"])) not in digests


@pytest.mark.parametrize(
    ("coordinator", "num_processes", "process_id", "message"),
    [
        ("localhost:1", 2, 2, "distributed.process_id must be at least 0 and below num_processes, 2, got 2"),
        ("localhost:1", 2, -1, "distributed.process_id must be at least 0 and below num_processes, 2, got -1"),
        ("localhost:1", 0, 0, "distributed.num_processes must be above 0, got 0"),
        ("localhost", 2, 0, "distributed.coordinator must be host:port of process 0, got localhost"),
    ],
)
def test_processes_that_cannot_meet_are_refused_at_once(coordinator, num_processes, process_id, message):
    numbers = [f"distributed.num_processes={num_processes}", f"distributed.process_id={process_id}"]
    with pytest.raises(ConfigError) as caught:
        load_config(["distributed.mode=explicit", f"distributed.coordinator={coordinator}", *numbers])
    assert str(caught.value) == message


def test_mode_auto_without_a_launcher_says_so_in_a_line():
    unlaunched = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "OMPI"))}
    done = subprocess.run(
        [sys.executable, "train.py", "train.run=never", "distributed.mode=auto"],
        cwd=ROOT,
        env=unlaunched | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: distributed.mode=auto must be started by Slurm, Open MPI or on a TPU pod, got"
    )
    assert done.stderr.count("\n") == 1


def test_help_ends_quietly_when_nobody_reads_it_to_its_end():
    command = f"set -o pipefail; {sys.executable} train.py --help | true"
    shown = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_help_lists_every_option_with_its_doc():
    done = subprocess.run(
        [sys.executable, "train.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    for key in option_types(Config):
        assert f"--{key}" in done.stdout, key
    assert "Peak learning rate" in done.stdout


def test_bad_setting_exits_2_with_one_line():
    done = subprocess.run(
        [sys.executable, "train.py", "model.num_layer=2"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "did you mean model.num_layers?" in done.stderr
    assert done.stdout == ""
