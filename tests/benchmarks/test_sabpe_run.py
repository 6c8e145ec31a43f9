"""The whole comparison in miniature, killed on the way and run again."""

import json
import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
SIZES = ["--quick", "--vocab-size", "700", "--model-vocab-size", "520", "--model-bytes", "150000"]
SIZES += ["--set", "model.dim=32", "model.num_layers=1", "model.hidden_dim=64", "data.tokens_per_step=512"]
SIZES += ["data.max_length=128"]


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> Path:
    """Two languages; every repository has words of its own beside those that all have."""
    folder = tmp_path_factory.mktemp("documents")
    write(folder / "train.parquet", 16, 40, seed=0)
    write(folder / "eval.parquet", 6, 8, seed=1)
    return folder


def write(path: Path, num_repositories: int, num_documents: int, *, seed: int) -> None:
    rng = random.Random(seed)
    shared = ["alpha", "beta", "gamma", "delta", "value", "total", "index", "result", "return", "while"]
    rows: dict[str, list[str]] = {"text": [], "repo": [], "language": []}
    for number in range(num_repositories):
        own = ["".join(rng.choice("bcdfgaeiou") for _ in range(9)) for _ in range(3)]
        for document in range(num_documents):
            words = rng.choices(shared + own, k=120)
            lines = [f"{first}_{rng.randint(0, 999)} = {second}" for first, second in pairwise(words)]
            rows["text"].append("\n".join(lines))
            rows["repo"].append(f"{seed}/repository{number}")
            rows["language"].append(("Python", "Java")[document % 2])
    pq.write_table(pa.table(rows), path)


def start(output: Path, cache: Path, *words: str) -> subprocess.Popen:
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": QUICK_COMPILATION,
        "DYADLM_COMPILE_CACHE": str(cache),
    }
    command = [sys.executable, "-m", "benchmarks.reproduce_sabpe", "--output", str(output), *words]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process: subprocess.Popen) -> str:
    output, _ = process.communicate(timeout=500)
    assert process.returncode == 0, output
    return output


def wait_for_checkpoint(run: Path) -> None:
    """One that is committed: until then its folder has another name than its step."""
    limit = time.monotonic() + 500
    while not any(path.name.isdigit() for path in run.glob("checkpoints/*")):
        assert time.monotonic() < limit, "no checkpoint was written"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_miniature_that_is_killed_goes_on_and_reports_what_it_measured(documents, tmp_path):
    output, cache = tmp_path / "output", tmp_path / "compile"
    words = ["--train", str(documents / "train.parquet"), "--on", str(documents / "eval.parquet"), *SIZES]
    runs = output / "runs" / "seed-0"

    process = start(output, cache, *words)
    try:
        wait_for_checkpoint(runs / "sabpe")
    finally:
        process.kill()
        process.communicate()
    before = {path: path.stat().st_mtime_ns for path in output.glob("vocabularies/*/*.npz")}
    first = (runs / "plain" / "metrics.jsonl").read_bytes()
    assert "Partial: 1 vocabularies and models are not done" in finish(start(output, cache, "--report"))

    text = finish(start(output, cache, *words))
    assert "1 of 1 models to do: sabpe, seed 0" in text and "Too small to tell" in text and "Partial" not in text
    assert {path: path.stat().st_mtime_ns for path in output.glob("vocabularies/*/*.npz")} == before
    assert (runs / "plain" / "metrics.jsonl").read_bytes() == first
    assert "resumed at step" in (runs / "sabpe.log").read_text(encoding="utf-8")

    found = json.loads((output / "results.json").read_text(encoding="utf-8"))
    assert found["missing"] == 0 and {one["verdict"] for one in found["findings"]} == {"too small to tell"}
    assert {one["part"] for one in found["findings"]} == {"tokenizers", "languages", "models"}
    assert {(one["name"], one["num_repositories"]) for one in found["languages"]} == {("Python", 16), ("Java", 16)}
    (arms,) = found["models"]
    assert set(arms) == {"plain", "sabpe"}
    assert all(set(arm["predictors"]) == {"F", "R", "L", "occurrences"} for arm in arms.values())
    for name in ("compression-R", "gini-L", "plain-R-L", "sabpe-R-L", "undertrained"):
        assert (output / "plots" / f"{name}.svg").stat().st_size > 2000
    commands = (output / "commands.md").read_text(encoding="utf-8").splitlines()
    assert len(commands) == 2 and "train.py" in commands[0] and "undertrained" in commands[0]

    refused = start(output, cache, "--train", str(documents / "eval.parquet"), "--on", str(documents), *SIZES)
    told, _ = refused.communicate(timeout=100)
    assert refused.returncode == 2 and "--train must be the documents" in told.splitlines()[-1]
