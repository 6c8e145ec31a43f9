import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from dataservice import DataConfig, DataError
from dataservice.config import SEQUENCES
from dataservice.inspection import show_step, step_pieces
from dataservice.loader import BatchDataset

LENGTHS = [[3, 40, 1, 77, 9, 30], [], [5, 2, 61, 18, 1, 1, 90]]
CONFIG = DataConfig(min_length=4, max_length=32, tokens_per_step=32)


@pytest.mark.parametrize("kind", SEQUENCES)
def test_pieces_are_the_rows_that_the_step_trains_on_and_name_their_documents(make_store, kind):
    store, config = make_store(LENGTHS), dataclasses.replace(CONFIG, sequences=kind)
    for batch in BatchDataset(store, config):
        _, pieces = step_pieces(store, config, batch["step"])
        rows = [[] for _ in batch["inputs"]]
        for piece in pieces:
            rows[piece.row] += piece.tokens[:-1].tolist()
            shard, document = piece.path.split("/")
            assert shard == piece.shard
            assert piece.repository == "memory"
            assert piece.offset + piece.inputs <= LENGTHS[int(shard[-1])][int(document)] + 1
            positions = store.documents(int(shard[-1]))
            start = positions[int(document)] + piece.offset
            tokens = store.tokens(int(shard[-1]))[start : start + piece.inputs + 1]
            assert np.array_equal(tokens, piece.tokens)
        for row, inputs in zip(rows, batch["inputs"].tolist(), strict=True):
            assert inputs[: len(row)] == row and not any(inputs[len(row) :])


def test_a_step_is_shown_with_its_place_and_the_beginning_of_each_text(make_store, monkeypatch):
    store = make_store(LENGTHS)
    tokenizer = SimpleNamespace(decode=lambda ids: " ".join(map(str, ids)))
    monkeypatch.setattr(store, "tokenizer", lambda: tokenizer)
    first, *lines = show_step(store, CONFIG, 0, max_characters=10)
    assert first.startswith("step 0: epoch 0, window 0, cycle 0, 32 tokens in ")
    assert lines[0].startswith("row 0: memory shard-") and "tokens " in lines[0]
    assert lines[1].endswith("...")


def test_a_step_after_the_last_is_refused(make_store):
    with pytest.raises(DataError, match=r"step must be below \d+, got 1000; data.epochs"):
        step_pieces(make_store(LENGTHS), CONFIG, 1000)
