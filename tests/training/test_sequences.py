import json

import pytest

from dataservice import Store
from dataservice.config import SEQUENCES

QUICK = ("model.num_layers=1", "train.sample_tokens=1", "data.min_length=16")
ON_PACKED = ("train.evaluate_batches=1", "train.evaluate_sequences=packed")


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEQUENCES)
def test_an_epoch_of_any_kind_of_sequences_trains_on_every_target_once(trainer, kind):
    steps = ("data.tokens_per_step=4096", "train.num_steps=null")
    trainer.train(f"data.sequences={kind}", "train.run=run", *steps, *QUICK, *ON_PACKED)
    *rows, last = map(json.loads, (trainer.folder / "run" / "metrics.jsonl").read_text().splitlines())
    (path,) = (manifest.parent for manifest in (trainer.folder / "cache").glob("stores/*/manifest.json"))
    evaluated = {name for row in rows for name in row if name.startswith("held_out_loss_") and "_at_" not in name}
    assert evaluated == {"held_out_loss_32p"}
    assert last["tokens"] == Store.open(path).shards.multiples[:, 0].sum()
