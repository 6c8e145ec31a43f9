"""The whole comparison in miniature, killed on the way and run again."""

import json
import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.decomposition.documents import read_held_out
from benchmarks.decomposition.held_out import read_results

ROOT = Path(__file__).parents[2]
QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
SIZES = ["--quick", "--contexts", "256", "--tokens", "16384", "--tokens-per-step", "256", "--vocab-size", "400"]
SIZES += ["--arms", "concat", "decomposed-8", "--set", "model.dim=32", "model.num_layers=1", "model.hidden_dim=64"]
SETTING = "up-to-context-256"


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> Path:
    rng, folder = random.Random(0), tmp_path_factory.mktemp("documents")
    words = ["alpha", "beta", "gamma", "delta", "value", "total", "index", "result"]
    for number in range(600):
        lines = [f"{rng.choice(words)}_{rng.randint(0, 99)} = {rng.choice(words)}" for _ in range(rng.randint(2, 24))]
        path = folder / f"repository{number % 20}" / f"file{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")
    return folder


def start(output: Path, cache: Path, *words: str) -> subprocess.Popen:
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": QUICK_COMPILATION,
        "DYADLM_COMPILE_CACHE": str(cache),
    }
    command = [sys.executable, "-m", "benchmarks.reproduce_decomposition", "--output", str(output), *words]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process: subprocess.Popen) -> str:
    try:
        output, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0, output
    return output


def wait_for_checkpoint(run: Path) -> None:
    limit = time.monotonic() + 500
    # What is being written has a longer name.
    while not any(path.name.isdigit() for path in run.glob("checkpoints/*")):
        assert time.monotonic() < limit, "no checkpoint was written"
        time.sleep(0.05)


def full_loss(run: Path, sequences: list[np.ndarray]) -> float:
    """Nats per token of whole sequences one by one, from the logits, in float64."""
    import jax.numpy as jnp

    import model
    from evaluation import open_subject

    subject = open_subject(run)
    total = 0.0
    for ids in sequences:
        padded = np.zeros((1, 256), np.int32)
        padded[0, : len(ids) - 1] = ids[:-1]
        logits = np.asarray(model.logits(subject.params, subject.config, jnp.asarray(padded)), np.float64)[
            0, : len(ids) - 1
        ]
        shifted = logits - logits.max(axis=-1, keepdims=True)
        log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        total -= log_probs[np.arange(len(ids) - 1), ids[1:]].sum()
    return total / sum(len(ids) - 1 for ids in sequences)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_miniature_that_is_killed_goes_on_and_reports_what_it_measured(documents, tmp_path):
    output, cache = tmp_path / "output", tmp_path / "compile"
    first = output / "runs" / SETTING / "concat" / "seed-0"
    second = output / "runs" / SETTING / "decomposed-8" / "seed-0"

    process = start(output, cache, "--data", f"train={documents}", *SIZES)
    try:
        wait_for_checkpoint(second)
    finally:
        process.kill()
        process.communicate()
    assert len(read_results(first)) == 4
    before = (first / "metrics.jsonl").read_bytes()
    partial = finish(start(output, cache, "--report"))
    assert "Partial: 1 runs are not done" in partial

    # The documents are not needed any more; a process that had stayed would have the run locked.
    text = finish(start(output, cache, *SIZES))
    assert "1 of 1 runs to do" in text and "Too small to tell" in text and "Partial" not in text
    assert (first / "metrics.jsonl").read_bytes() == before
    assert "resumed at step" in second.with_suffix(".log").read_text(encoding="utf-8")

    sequences = read_held_out(output / "held_out" / f"{SETTING}.npz")
    for run in (first, second):
        assert read_results(run)[-1]["loss"] == pytest.approx(full_loss(run, sequences), rel=1e-5)
        assert len(list(run.glob("checkpoints/[0-9]*"))) == 1
    (found,) = json.loads((output / "results.json").read_text(encoding="utf-8"))["settings"]
    assert set(found["arms"]) == {"concat", "decomposed-8"} and found["missing_runs"] == 0
    tokens = [arm["seeds"]["0"]["curve"]["tokens"][-1] for arm in found["arms"].values()]
    assert abs(tokens[0] - tokens[1]) < 256  # the end that is shorter than a row is left out by concat
    assert all(len(row["turns"][kind]) == 12 for row in found["steps"] for kind in ("wall", "cpu"))
    outcome = found["arms"]["concat"]["seeds"]["0"]
    assert outcome["time_ratio"] == outcome["tokens_ratio"] == 1
    assert outcome["final_loss"] == read_results(first)[-1]["loss"] and outcome["gain"] is not None
    assert {finding["verdict"] for finding in found["findings"]} == {"too small to tell"}
    for name in ("tokens", "time", "steps", "positions"):
        for suffix in ("svg", "png"):
            assert (output / "plots" / f"{SETTING}-{name}.{suffix}").stat().st_size > 5000
    commands = (output / "commands.md").read_text(encoding="utf-8").splitlines()
    assert len(commands) == 2 and "train.py" in commands[0] and "longcontext" in commands[0]


@pytest.mark.slow
def test_a_store_gives_its_documents_and_its_tokenizer(documents, tmp_path):
    from benchmarks.decomposition.documents import Sources, make_data
    from benchmarks.decomposition.scales import QUICK
    from dataservice import Store, prepare
    from tokenizer import train
    from tokenizer.corpus import CorpusConfig, list_shards, read_shard

    corpus = CorpusConfig(paths=(str(documents),), held_out_fraction=0.2)
    texts = [document for shard in list_shards(corpus) for document in read_shard(shard, corpus)]
    trained = train(texts, vocab_size=400)
    prepare(corpus, trained, tmp_path / "store", workers=1)
    scale = QUICK.with_options(contexts=(256,), tokens=2**20, held_out_tokens=2**20)
    make_data(tmp_path / "output", Sources(store=str(tmp_path / "store")), scale, lambda *_, **__: None)

    whole = Store.open(tmp_path / "store")
    assert whole.held_out is not None
    made = Store.open(tmp_path / "output" / "stores" / SETTING, trained.fingerprint)
    fits = [part for store in (whole,) for part in _documents(store) if len(part) < 256]
    assert sorted(map(bytes, _documents(made))) == sorted(map(bytes, fits))
    held_out = [ids[1:-1].astype(whole.dtype) for ids in read_held_out(tmp_path / "output/held_out" / f"{SETTING}.npz")]
    expected = [part for part in _documents(whole.held_out) if len(part) < 256]
    assert sorted(map(bytes, held_out)) == sorted(map(bytes, expected))


def _documents(store) -> list[np.ndarray]:
    found = []
    for shard in range(store.num_planned_shards):
        tokens, borders = np.asarray(store.tokens(shard)), store.documents(shard)
        found += [np.ascontiguousarray(tokens[start + 1 : end]) for start, end in pairwise(borders)]
    return found
