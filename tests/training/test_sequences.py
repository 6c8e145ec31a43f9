import json

import pytest

from dataservice import Store

QUICK = ("model.num_layers=1", "train.evaluate_batches=0", "train.sample_tokens=1", "data.min_length=16")


@pytest.mark.parametrize(
    "kind",
    [
        "concatenated",
        "packed",
        pytest.param("concatenated-masked", marks=pytest.mark.slow),
        pytest.param("grow-length", marks=pytest.mark.slow),
    ],
)
def test_an_epoch_of_any_kind_of_sequences_trains_on_every_target_once(trainer, kind):
    steps = ("data.tokens_per_step=4096", "train.num_steps=null")
    trainer.train(f"data.sequences={kind}", "train.run=run", *steps, *QUICK)
    *_, last = map(json.loads, (trainer.folder / "run" / "metrics.jsonl").read_text().splitlines())
    (path,) = (manifest.parent for manifest in (trainer.folder / "cache").glob("stores/*/manifest.json"))
    assert last["tokens"] == Store.open(path).shards.multiples[:, 0].sum()
