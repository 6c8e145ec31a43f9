"""The plan of a run: its memory against what the compiler says, its table, and what it refuses."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import tokenizer as tokenizers
from dataservice import Bucket, TokenFormat, write_store
from tokenizer import Tokenizer
from training.__main__ import main
from training.config import load_config
from training.plan import abstract_mesh, plan_buckets, plan_recipe, split_of
from training.run import Run
from training.step import abstract_state, batch_shapes, make_train_step, rate_shape

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "memory_of_steps.py"
LARGE = str(ROOT / "configs" / "openlm-1b.yaml")
MOST_OFF = 1.5
"""Factor within which the formula gives the compiler's temporary memory."""

QUICK = [{"devices": 8, "tensor": 2, "rows": 16, "length": 256}]
SLOW = [
    {"devices": 1, "rows": 16, "length": 256},
    {"devices": 1, "rows": 16, "length": 256, "remat": "layer"},
    {"devices": 1, "rows": 16, "length": 256, "remat": "none"},
    {"devices": 1, "rows": 64, "length": 64, "vocab": 8192},
    {"devices": 8, "rows": 2, "length": 2048, "num_kv_heads": 2},
]


def plan(*arguments):
    return main(["plan", *arguments])


@pytest.mark.parametrize("cases", [QUICK, pytest.param(SLOW, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_memory_by_formula_is_what_the_compiler_says(cases):
    flags = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, SCRIPT, json.dumps(cases)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    reports = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(reports) == len(cases)
    for report in reports:
        for found, expected in (report["arguments"], report["kept in place"]):
            assert found == expected, report
        found, expected = report["temporary"]
        assert expected / MOST_OFF < found < expected * MOST_OFF, report


@pytest.mark.slow
def test_one_billion_parameters_are_lowered_for_64_devices_that_are_not_there():
    config = load_config([LARGE, "distributed.tensor_parallel=2"])
    recipe = plan_recipe(config, abstract_mesh(64, 2), "bfloat16")
    given = batch_shapes(recipe, Bucket(8192, False)), rate_shape(recipe)
    step = jax.jit(make_train_step(recipe)).trace(abstract_state(recipe), *given)
    text = step.lower(lowering_platforms=("tpu",)).as_text()
    assert '"d0"=2, "d1"=2, "d2"=2, "d3"=2, "d4"=2, "tensor"=2' in text


def test_state_of_one_billion_parameters_on_64_devices_is_a_64th_of_12_bytes_each():
    config = load_config([LARGE])
    memory = plan_buckets(config, plan_recipe(config, abstract_mesh(64, 1), "bfloat16"))[0].memory
    assert memory.parameters + memory.optimizer == pytest.approx(1_439_893_504 * 12 / 64, rel=1e-3)


def test_few_long_rows_are_split_along_the_sequence():
    config = load_config([LARGE, "distributed.tensor_parallel=2"])
    recipe = plan_recipe(config, abstract_mesh(512, 2), "bfloat16")
    assert split_of(recipe, Bucket(8192, False)) == "64 x 4 x 2"
    assert split_of(recipe, Bucket(256, True)) == "256 x 1 x 2"


def test_plan_prints_a_row_for_each_bucket_and_marks_what_does_not_fit(capsys):
    assert plan(LARGE, "data.min_length=4096", "data.tails=drop", "--devices", "8", "--device-memory", "8") == 0
    *_, first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:7] == ["8192", "64", "8", "x", "1", "x", "1"]
    assert second.split()[0] == "4096"
    assert first.endswith("over 8.00 GiB")


def test_the_vocabulary_is_that_of_the_tokenizer_at_hand(tmp_path, capsys):
    store, path, sizes = tmp_path / "a store", tmp_path / "a tokenizer", {}
    for size, folder in ((300, store / "tokenizer"), (290, path), (280, tmp_path / "run" / "tokenizer")):
        made = tokenizers.train([("def alpha(beta):\n    return beta\n" * 3, "a", "python")], vocab_size=size)
        made.save(folder)
        sizes[folder] = made.vocab_size
    write_store(store, {"shard": [[1, 2, 3]]}, TokenFormat.of(Tokenizer.load(store / "tokenizer")))
    run = tmp_path / "run"
    Run(run).write_config(load_config([LARGE]), place=tmp_path / "where it was before")

    def planned(*arguments):
        assert plan(*arguments, "data.min_length=4096", "data.tails=drop") == 0
        first, second, *_ = capsys.readouterr().out.splitlines()
        size = int(first.split()[1].replace(",", ""))
        assert f"vocabulary {size:,}; " in second
        return size, first.partition("tokens, ")[2]

    assert planned(LARGE, f"data.store={store}") == (sizes[store / "tokenizer"], f"of {store}")
    assert planned(LARGE, f"data.store={store}", f"tokenizer.path={path}")[0] == sizes[path]
    assert planned(str(run / "config.yaml"))[0] == sizes[run / "tokenizer"]
    assert planned(LARGE, f"train.run={run}")[0] == sizes[run / "tokenizer"]
    size, line = planned(LARGE, "data.store=gs://bucket/store")
    assert size == load_config([LARGE]).tokenizer.vocab_size and "assumed" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LARGE, "distributed.tensor_parallel=3"), "distributed.tensor_parallel must divide the model's num_heads 16"),
        ((LARGE, "distributed.tensor_parallel=16", "--devices=8"), "tensor_parallel must divide the 8 devices, got 16"),
        (("missing.yaml",), "config must be a readable file"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, message, capsys):
    assert plan(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_steps_are_compiled_for_virtual_devices():
    one = ["data.min_length=512", "data.mixture=natural", "data.tails=drop", "model.num_layers=1"]
    command = [sys.executable, "-m", "training", "plan", *one, "--devices", "2", "--compile"]
    flags = {"XLA_FLAGS": "--xla_backend_optimization_level=0", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, env=os.environ | flags, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].split()[0] == "512"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
def test_steps_are_compiled_for_a_slice_that_is_not_there(capsys):
    small = [
        "model.num_layers=2",
        "data.min_length=4096",
        "data.max_length=4096",
        "data.tails=drop",
        "data.mixture=natural",
    ]
    assert plan(LARGE, *small, "--topology", "v5e:2x2", "--compile") == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "4096"
