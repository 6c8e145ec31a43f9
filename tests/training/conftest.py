"""Whole runs of train.py in processes of their own, over a small corpus of made-up source files."""

import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

# Optimising what runs for a second costs more than it gains: 0.8 instead of 4.9 CPU-seconds a step.
QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
ROOT = Path(__file__).parents[2]
TINY = """
corpus: {paths: [CORPUS], held_out_fraction: 0.2, held_out_by: document, shard_bytes: 20000}
tokenizer: {vocab_size: 400}
data: {min_length: 8, max_length: 32, tokens_per_step: 256, curriculum: grow-p2, cycles: 2, window_shards: 2,
       cache: CACHE}
model: {num_layers: 2, dim: 32, num_heads: 2, hidden_dim: 64, tied_embeddings: true}
optimizer: {warmup_steps: 4}
train: {num_steps: 12, log_every: 1, evaluate_every: 6, evaluate_batches: 2, checkpoint_every: 4, keep_checkpoints: 9,
        sample_prompt: "def ", sample_tokens: 8, tensorboard: false}
"""


def made_up_source(rng: random.Random) -> str:
    words = ["alpha", "beta", "gamma", "delta", "value", "total", "index", "result", "items", "count"]
    lines = []
    for number in range(rng.randint(3, 60)):
        a, b, c = (rng.choice(words) for _ in range(3))
        lines.append(f"def {a}_{number}({b}, {c}):\n    return {b} + {c} * {rng.randint(0, 999)}\n")
    return "\n".join(lines)


@pytest.fixture(scope="session")
def read_state():
    """(run, step) -> {path in the state: the bytes of the array}, whatever devices the checkpoint came from."""

    def read(run: Path, step: int) -> dict[str, bytes]:
        folder = run.absolute() / "checkpoints" / str(step) / "state"
        with ocp.PyTreeCheckpointer() as checkpointer:
            tree = checkpointer.metadata(folder).item_metadata.tree
            as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)
            state = checkpointer.restore(folder, restore_args=as_numpy)
        return {jax.tree_util.keystr(path): leaf.tobytes() for path, leaf in jax.tree.leaves_with_path(state)}

    return read


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory):
    rng = random.Random(0)
    root = tmp_path_factory.mktemp("corpus")
    for repository in range(6):
        for number in range(12):
            path = root / f"repository{repository}" / f"file{number}.{rng.choice(['py', 'js'])}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(made_up_source(rng), encoding="utf-8")
    return root


@pytest.fixture(scope="session")
def compile_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("compile")


@pytest.fixture
def trainer(tmp_path, corpus_folder, compile_cache):
    """start(*overrides, devices, cwd, before) -> Popen; train(...) -> output of a finished process; over a tiny config.

    `before` is Python that runs in the process before train.py does: faults are put in there.
    """
    config = tmp_path / "tiny.yaml"
    config.write_text(TINY.replace("CORPUS", str(corpus_folder)).replace("CACHE", str(tmp_path / "cache")))

    def start(*overrides: str, devices: int = 1, cwd: Path = tmp_path, before: str = "") -> subprocess.Popen:
        environment = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {QUICK_COMPILATION}",
            "DYADLM_COMPILE_CACHE": str(compile_cache),
        }
        program = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{before}\nimport train; sys.exit(train.main(sys.argv[1:]))"
        )
        return subprocess.Popen(
            [sys.executable, *(["-c", program] if before else [str(ROOT / "train.py")]), str(config), *overrides],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def train(*overrides: str, devices: int = 1, before: str = "", code: int = 0) -> str:
        process = start(*overrides, devices=devices, before=before)
        output, _ = process.communicate(timeout=280)
        assert process.returncode == code, output
        return output

    return SimpleNamespace(start=start, train=train, folder=tmp_path, config=config)
