"""How often a run had each token, against what the pieces of its steps show."""

import dataclasses

import numpy as np
import orbax.checkpoint as ocp
import pytest

from dataservice import DataConfig, TokenFormat, open_schedule, prefix_digest, schedule_digest, write_store
from dataservice.inspection import step_pieces
from evaluation.undertrained import find_occurrences, find_undertrained, finding, make_tables, to_json
from evaluation.undertrained.occurrences import WHOLE_STORE, count_occurrences, count_trained
from training.checkpoint import items_of
from training.config import Config
from training.position import Position
from training.run import Run
from training.settings import TrainConfig

DATA = DataConfig(min_length=4, max_length=16, tokens_per_step=32, curriculum="grow-p2", cycles=2, epochs=3, seed=3)


@pytest.fixture
def store(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "store" / "tokenizer")
    return write_store(tmp_path / "store", made_up_shards(0), TokenFormat.of(tokenizer))


def made_up_shards(seed: int) -> dict[str, list[list[int]]]:
    draw = np.random.default_rng(seed)
    return {f"s{n}": [draw.integers(32, 127, size).tolist() for size in draw.integers(1, 40, 9)] for n in range(3)}


def counted_by_pieces(store, config, num_steps, vocab_size) -> list[int]:
    counts = [0] * vocab_size
    for step in range(num_steps):
        for piece in step_pieces(store, config, step)[1]:
            for token in piece.tokens[1:].tolist():
                counts[token] += 1
    return counts


KINDS = {
    "decomposed": {},
    "one window a shard": {"window_shards": 1},
    "without tails": {"tails": "drop"},
    "a mixture": {"mixture": {4: 100, 8: 300, 16: 40}},
    "concatenated": {"sequences": "concatenated", "curriculum": "uniform"},
    "packed": {"sequences": "packed", "curriculum": "uniform"},
}


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_tokens_of_steps_are_the_targets_of_their_pieces_in_part_and_over_epochs(store, tokenizer, changes):
    config = dataclasses.replace(DATA, **changes)
    per_epoch = open_schedule(store, config).steps_per_epoch()
    for num_steps in (5, per_epoch, 2 * per_epoch + 3):
        expected = counted_by_pieces(store, config, num_steps, tokenizer.vocab_size)
        assert count_trained(store, config, num_steps, tokenizer.vocab_size).tolist() == expected


def test_an_epoch_is_every_token_but_the_first_of_each_shard(store, tokenizer):
    expected = count_occurrences(store, tokenizer.vocab_size)
    expected[tokenizer.special_tokens["<eod>"]] -= 3
    per_epoch = open_schedule(store, DATA).steps_per_epoch()
    assert count_trained(store, DATA, per_epoch, tokenizer.vocab_size).tolist() == expected.tolist()


@pytest.fixture
def make_run(store, tokenizer, subject, tmp_path):
    """make_run(**train) -> the subject of a run after 6 steps over the store."""

    def make(**train) -> object:
        run = Run(tmp_path / "run")
        run.begin(Config(data=DATA, train=TrainConfig(**train)), tokenizer)
        data = prefix_digest(store, open_schedule(store, DATA), 6)
        position = Position(6, 192, data, schedule_digest(DATA), tokenizer.fingerprint, "LlamaConfig()")
        with ocp.CheckpointManager(run.checkpoints.absolute()) as manager:
            manager.save(6, args=items_of({"params": {"x": np.zeros(1, np.float32)}}, position._asdict()))
        return subject._replace(place=run.folder, step=6)

    return make


def test_a_run_is_counted_in_its_own_steps_and_tables_say_so(store, make_run, monkeypatch):
    run = make_run()
    found = find_occurrences(run, store)
    assert found.scope == "steps 1 to 6"
    assert found.counts.tolist() == counted_by_pieces(store, DATA, 6, run.tokenizer.vocab_size)
    probabilities = np.full((1000, 3, 3), 0.5, np.float32)
    monkeypatch.setattr(finding, "probabilities_to_repeat", lambda _, tokens, *rest: probabilities[: len(tokens)])
    judged = find_undertrained(run, occurrences=found)
    tables = make_tables([judged])
    (counts,) = (dict(zip(tables[0].columns, row, strict=True)) for row in tables[0].rows)
    rare = sum(bool(found.counts[token] < 10) for token in np.flatnonzero(judged.is_eligible))
    assert (counts["seen < 10"], counts["seen in"]) == (f"{rare:,}", "steps 1 to 6")
    assert all("occurrences in steps 1 to 6" in table.caption for table in tables[2:])
    assert to_json(judged)["occurrences_in"] == "steps 1 to 6"


def test_steps_that_initial_weights_had_before_are_said_to_be_left_out(store, make_run):
    assert find_occurrences(make_run(initial_weights="other"), store).scope.endswith("before its initial weights")


def test_what_is_no_run_of_the_store_is_counted_in_the_whole_of_it(store, make_run, tokenizer, subject, tmp_path):
    tokenizer.save(tmp_path / "other" / "tokenizer")
    other = write_store(tmp_path / "other", made_up_shards(1), TokenFormat.of(tokenizer))
    for one, where in ((make_run(), other), (subject, store), (subject._replace(step=6), store)):
        found = find_occurrences(one, where)
        assert found.scope == WHOLE_STORE == "the whole store"
        assert found.counts.tolist() == count_occurrences(where, tokenizer.vocab_size).tolist()
