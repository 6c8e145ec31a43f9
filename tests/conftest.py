import signal
from pathlib import Path

import pytest

OWNED = {
    "run/config.yaml": "a run",
    "run/metrics.jsonl": "a run",
    "run/summary.json": "a run",
    "run/events.out.tfevents.1.host": "a run",
    "run/checkpoints/50/_CHECKPOINT_METADATA": "a checkpoint",
    "run/checkpoints/50/state/data.json": "a checkpoint",
    "run/tokenizer/tokenizer.json": "a tokenizer",
    "run/tokenizer/provenance.json": "a tokenizer",
    "begun/config.yaml": "a run",
    "begun/.lock": "a run",
    "store/manifest.json": "a store",
    "store/shards.parquet": "a store",
    "store/shards/first/shard.json": "a store",
    "hub/config.json": "a model",
    "hub/model.safetensors": "a model",
    "hub/tokenizer.json": "a model",
    "coder/tokenizer.json": "a tokenizer",
    "coder/tokenizer_config.json": "a tokenizer",
    "kept/owner": "a folder of checkpoints",
    "kept/50/_CHECKPOINT_METADATA": "a checkpoint",
}
"""Files of everything that is made, and what each is part of."""


@pytest.fixture
def owned(tmp_path, monkeypatch) -> dict[str, str]:
    """Files that no output may replace, in the working directory: a run, a store, folders of transformers."""
    monkeypatch.chdir(tmp_path)
    for name in OWNED:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("{}")
    return OWNED


def pytest_configure() -> None:
    """Let commands that tests start be interrupted, also where a shell has started pytest in the background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
