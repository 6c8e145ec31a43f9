"""The benchmarks of training, at sizes that only show that they work."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu_parts import PARTS
from benchmarks.gpu_report import NATURAL, decomposed_mean, report

ROOT = Path(__file__).parents[2]


def test_the_mean_over_the_mixture_weighs_lengths_by_their_tokens():
    values = {length: float(length) for length in NATURAL}
    expected = sum(length * share for length, share in NATURAL.items()) / 96
    assert decomposed_mean(values, 8192) == pytest.approx(expected)
    assert decomposed_mean(dict.fromkeys(NATURAL, 3.0), 8192) == pytest.approx(3)


def test_rows_longer_than_the_fixed_length_count_as_rows_of_it():
    # 64: 3, 128: 6, the other 87 shares are cut to 256.
    values = {64: 1.0, 128: 10.0, 256: 100.0}
    assert decomposed_mean(values, 256) == pytest.approx((3 * 1 + 6 * 10 + 87 * 100) / 96)


def test_a_mixture_with_a_length_that_was_not_measured_has_no_mean():
    assert decomposed_mean({64: 1.0, 128: 1.0}, 256) is None


def test_the_report_compares_time_with_operations_and_says_what_is_missing():
    lengths = [*NATURAL, 16_384]
    rows = [
        {
            "model": "m",
            "rows": 65_536 // length,
            "length": length,
            "seconds": [0.1 + length / 1e5] * 5,
            "flops": 0.1 + length / 1e5,
            "peak": 2.0,
            "temporary": 1,
            "remat": "dots",
        }
        for length in lengths
    ]
    text = report({"buckets": rows, "torch": [{"note": "torch is not installed, so it is not compared"}]}, "x", 1.0)
    mixtures = text.partition("## The natural mixture")[2].partition("##")[0].splitlines()
    # Time in proportion to operations: their ratios are the same.
    assert [line.split(" | ")[-1].rstrip(" |") for line in mixtures if line.startswith("| m |")] == ["1.000"] * 3
    assert "| m | 8,192 | 8 | 181.9 ± 0.0 | 360,246 | 50.0% |" in text
    assert "- torch: torch is not installed" in text


@pytest.mark.slow
def test_every_part_of_the_gpu_benchmark_works_on_cpu(tmp_path):
    document = tmp_path / "gpu.md"
    command = [sys.executable, "-m", "benchmarks.gpu", "--cpu-small", "--document", str(document)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=290, check=False)
    assert result.returncode == 0, result.stderr
    text = document.read_text(encoding="utf-8")
    assert "failed" not in text and "ended when" not in text, text + result.stderr
    assert all(name in result.stderr for name in PARTS)
    for line in ("| tiny | 64 | 2 |", "| 32 | float32 |", "| 32 | ", "with an empty compile cache"):
        assert line in text


@pytest.mark.slow
@pytest.mark.peers
def test_the_measured_train_step_computes_what_torch_does():
    pytest.importorskip("torch")
    sizes = ["--model", "tiny", "--lengths", "64", "--tokens-per-step", "128", "--turns", "2", "--steps", "1"]
    command = [sys.executable, "-m", "benchmarks.train_step", *sizes]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=290, check=False)
    assert result.returncode == 0, result.stderr
    assert "losses of 4 steps agree" in result.stderr
    assert "| 64     |" in result.stdout
