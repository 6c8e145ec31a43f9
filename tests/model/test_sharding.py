import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

import model
from model import ModelError
from model.sharding import Layout, _prime_factors

SCRIPT = Path(__file__).parent / "sharded_gradients.py"
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def abstract_mesh(*sizes):
    return AbstractMesh(sizes, tuple(f"d{index}" for index in range(len(sizes))))


# rows, length, packed; how they lie on 2 x 2 x 2 devices
SPLITS = [
    (4, 128, True, "(('d0', 'd1'), 'd2')"),  # devices swap parts of rows for heads
    (2, 256, True, "('d0', ('d1', 'd2'))"),  # more devices than key/value heads: keys are gathered
    (8, 64, False, "(('d0', 'd1', 'd2'), None)"),
    (16, 32, True, "(('d0', 'd1', 'd2'), None)"),
    (4, 128, False, "(('d0', 'd1'), 'd2')"),
    (1, 512, False, "(None, ('d0', 'd1', 'd2'))"),
]


@pytest.mark.parametrize("splits", [SPLITS[:1], pytest.param(SPLITS[1:], marks=pytest.mark.slow)])
def test_eight_devices_equal_one_however_rows_and_length_are_split(splits):
    flags = f"--xla_force_host_platform_device_count=8 {QUICK}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(SCRIPT.parents[2])}
    run = subprocess.run(
        [sys.executable, SCRIPT, json.dumps([split[:3] for split in splits])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Involuntary full rematerialization" not in run.stderr
    memory, *cases = map(json.loads, run.stdout.splitlines())
    assert memory == {"largest_share": 1 / 8}
    assert [case["spec"] for case in cases] == [split[3] for split in splits]
    for case in cases:
        assert case["error"] < 5e-6, case


@pytest.mark.parametrize(("count", "factors"), [(1, []), (2, [2]), (8, [2, 2, 2]), (12, [3, 2, 2]), (7, [7])])
def test_mesh_has_an_axis_per_prime_factor(count, factors):
    assert _prime_factors(count) == factors


def test_mesh_of_one_device_has_one_auto_axis():
    mesh = model.make_mesh()
    assert dict(mesh.shape) == {"d0": 1}
    assert mesh.axis_types == (jax.sharding.AxisType.Auto,)


@pytest.mark.parametrize(
    ("sizes", "rows", "length", "spec"),
    [
        ((2, 2, 2), 64, 32, PartitionSpec(("d0", "d1", "d2"), None)),
        ((2, 2, 2), 2, 1024, PartitionSpec("d0", ("d1", "d2"))),
        ((2, 2, 2), 1, 2048, PartitionSpec(None, ("d0", "d1", "d2"))),
        ((3, 2, 2), 6, 512, PartitionSpec(("d0", "d1"), "d2")),
        ((1,), 4, 64, PartitionSpec("d0", None)),
    ],
)
def test_rows_take_the_first_axes_and_the_sequence_the_rest(sizes, rows, length, spec):
    assert model.batch_spec(abstract_mesh(*sizes), rows, length) == spec


def test_devices_that_divide_neither_rows_nor_length_are_refused():
    with pytest.raises(ModelError, match="devices must divide a batch of 4 rows x 256 tokens, got 6; "):
        model.batch_spec(abstract_mesh(3, 2), 4, 256)


def specs_of(shapes, mesh, **options):
    params = {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in shapes.items()}
    return {name: tuple(sharding.spec) for name, sharding in model.param_shardings(params, mesh, **options).items()}


def test_parameters_lie_over_all_axes_on_the_last_dimension_that_divides():
    shapes = {"last": (3, 16, 24), "second": (3, 16, 30), "by two": (3, 6), "none": (3, 5), "scalar": ()}
    axes = ("d0", "d1", "d2")
    expected = {"last": (None, None, axes), "second": (None, axes), "by two": (None, "d2"), "none": (), "scalar": ()}
    assert specs_of(shapes, abstract_mesh(2, 2, 2)) == expected
    assert specs_of(shapes, abstract_mesh(2, 2, 2), replicated=True) == dict.fromkeys(shapes, ())


def test_layers_and_vocabulary_are_split_over_the_tensor_axis():
    mesh = AbstractMesh((2, 2, 2), ("d0", "d1", "tensor"))
    shapes = {"query": (3, 16, 32), "down": (3, 32, 16), "embedding": (48, 16), "head": (49, 16), "gain": (3, 16)}
    data = ("d0", "d1")
    expected = {
        "query": (None, None, ("tensor", *data)),
        "down": (None, "tensor", data),
        "embedding": ("tensor", data),
        "head": (None, (*data, "tensor")),
        "gain": (None, (*data, "tensor")),
    }
    assert specs_of(shapes, mesh) == expected
    assert specs_of(shapes, mesh, replicated=True)["down"] == (None, "tensor")


def test_mesh_of_layers_split_by_more_devices_than_divide_is_refused():
    assert model.mesh_axes(24, 4) == {"d0": 3, "d1": 2, "tensor": 4}
    with pytest.raises(ModelError, match="tensor_parallel must divide the 6 devices, got 4; "):
        model.mesh_axes(6, 4)


def test_mesh_without_a_spec_is_refused():
    with pytest.raises(ModelError, match="spec must be given with a mesh, got None"):
        Layout(model.make_mesh(), None)
