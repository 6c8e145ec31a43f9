"""Every way to lie on 8 virtual devices gives the train step of one; a process a group, which shares compiles."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "sharded_steps.py"
FLAGS = (
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)
ALL = [[32, False], [32, True], [128, False], [512, False]]
ENDS = [[32, True], [512, False]]
BY_THREE = {"tokens": 768, "dim": 96, "hidden_dim": 192}

GROUPS = {
    "a few devices split the sequence": [
        {"devices": 2, "buckets": ENDS},
        {"devices": 4, "buckets": ALL},
    ],
    "many devices split the sequence": [{"devices": 8, "buckets": ALL}, {"devices": 1, "buckets": ENDS[:1]}],
    "devices by threes split the rows": [
        {"devices": 3, "buckets": [[32, True], [256, False]], **BY_THREE},
        {"devices": 6, "buckets": [[32, False], [256, False]], **BY_THREE},
    ],
    "few devices split layers": [
        {"devices": 2, "tensor": 2, "buckets": ENDS},
        {"devices": 4, "tensor": 4, "buckets": ENDS},
    ],
    "many devices split layers": [
        {"devices": 8, "tensor": 2, "buckets": ALL[2:]},
        {"devices": 8, "tensor": 4, "buckets": ENDS},
    ],
    "batches in passes": [
        {"devices": 2, "pass_tokens": 128, "buckets": [[32, True], [128, False]]},
        {"devices": 8, "pass_tokens": 128, "buckets": ENDS[:1]},
        {"devices": 4, "tensor": 2, "pass_tokens": 128, "buckets": [[64, False]]},
    ],
    "matrices made orthogonal": [
        {"devices": 4, "optimizer": "muon", "buckets": ENDS[:1]},
        {"devices": 8, "tensor": 2, "optimizer": "muon", "buckets": ENDS[:1]},
    ],
    "variants": [
        {"devices": 4, "tensor": 2, "num_kv_heads": 2, "qk_norm": True, "tied_embeddings": True, "buckets": ENDS},
        {"devices": 4, "tensor": 4, "vocab": 97, "buckets": ENDS[1:], "remat": "layer"},
        {"devices": 4, "whole": True, "buckets": ENDS[1:], "sliding_window": 40},
    ],
}


def run_steps(cases):
    environment = {**os.environ, "XLA_FLAGS": FLAGS, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(SCRIPT.parents[2])}
    command = [sys.executable, SCRIPT, json.dumps([{"tokens": 512} | case for case in cases])]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "Involuntary full rematerialization" not in run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def check(cases):
    reports = run_steps(cases)
    assert len(reports) == sum(len(case["buckets"]) for case in cases)
    for report in reports:
        assert report["error"] < 5e-6, report
    return reports


@pytest.mark.slow
def test_eight_devices_that_split_rows_sequence_and_layers_step_as_one_and_hold_an_eighth():
    packed, long = check([{"devices": 8, "tensor": 2, "buckets": ENDS}])
    assert packed["spec"] == "(('d0', 'd1'), None)"
    assert long["spec"] == "(None, ('d0', 'd1'))"
    assert long["all_bytes"] / 8 <= long["bytes"] < 1.001 * long["all_bytes"] / 8


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", GROUPS)
def test_every_bucket_on_every_mesh_steps_as_on_one_device(name):
    cases = GROUPS[name]
    reports = iter(check(cases))
    for case in cases:
        share = 1 if case.get("whole") else case["devices"]
        for _, report in zip(case["buckets"], reports, strict=False):
            assert report["bytes"] >= report["all_bytes"] / share
            assert (report["passes"] > 1) == ("pass_tokens" in case)
            if case.get("vocab", 96) % case["devices"] == 0 or share == 1:
                assert report["bytes"] < 1.001 * report["all_bytes"] / share, (case, report)
