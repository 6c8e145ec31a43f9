"""More documents for a store that stands: new shards after the old ones, and windows before them as they were."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dataservice import DataConfig, DataError, Store, StoreError, batches, open_schedule, prepare, verify
from tokenizer import CorpusConfig, Tokenizer

TOKENIZER = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))
CONFIG = DataConfig(min_length=4, max_length=32, tokens_per_step=64, window_shards=2, prefetch=0)


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """Durability cannot be tested here, and takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    random = np.random.default_rng(0)
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        for file in range(4):
            texts = ["the " * int(random.integers(1, 40)) for _ in range(20)]
            lines = [json.dumps({"text": text, "repo": str(row % 10)}) + "\n" for row, text in enumerate(texts)]
            (tmp_path / folder / f"{file}.jsonl").write_text("".join(lines))
    return [str(tmp_path / folder / "*.jsonl") for folder in ("old", "new")]


def write(paths: list[str], output: Path) -> Store:
    prepare(CorpusConfig(paths=tuple(paths), held_out_fraction=0.3), TOKENIZER, output, workers=1)
    return Store.open(output)


def test_an_appended_store_is_the_one_prepared_at_once(parts, tmp_path):
    before = write(parts[:1], tmp_path / "grown").shards
    grown = write(parts, tmp_path / "grown")
    at_once = write(parts, tmp_path / "at once")
    assert grown.shards.names[: len(before)] == before.names and len(grown.shards) == 2 * len(before)
    assert grown.shards.row_digest() == at_once.shards.row_digest()
    assert grown.held_out is not None and at_once.held_out is not None
    assert grown.held_out.shards.row_digest() == at_once.held_out.shards.row_digest()
    assert verify(grown) == []


def test_a_run_goes_on_into_the_new_windows_with_the_steps_it_has_taken(parts, tmp_path):
    store = write(parts[:1], tmp_path / "store")
    old_steps = open_schedule(store, CONFIG).num_steps(1)
    iterator = iter(batches(store, CONFIG))
    seen = [next(iterator) for _ in range(old_steps // 3)]
    state = iterator.get_state()
    grown = write(parts, tmp_path / "store")
    resumed = iter(batches(grown, CONFIG))
    resumed.set_state(state)
    rest = list(resumed)
    unbroken = list(batches(grown, CONFIG))
    assert len(seen) + len(rest) == len(unbroken) > old_steps
    for ours, theirs in zip(seen + rest, unbroken, strict=True):
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_a_run_whose_window_has_grown_is_refused(parts, tmp_path):
    config = DataConfig(min_length=4, max_length=32, tokens_per_step=64, window_shards=3, prefetch=0)
    store = write(parts[:1], tmp_path / "store")
    last = open_schedule(store, config).num_steps(1) - 1
    iterator = iter(batches(store, config, start_step=last))
    next(iterator)
    state = iterator.get_state()
    resumed = iter(batches(write(parts, tmp_path / "store"), config))
    with pytest.raises(DataError, match="digest"):
        resumed.set_state(state)


@pytest.mark.parametrize(
    ("settings", "always_goes_on"),
    [
        ({}, False),
        ({"cycles": 3}, False),
        ({"tokens_per_step": 4, "max_length": 4, "tails": "drop"}, True),  # every batch is one row, so all are complete
        ({"tokens_per_step": 4, "max_length": 4, "tails": "drop", "cooldown_curriculum": "grow-p2"}, False),
        ({"mixture": {4: 96, 32: 320}}, False),
        ({"mixture": "equal"}, False),
        ({"sequences": "concatenated"}, False),
    ],
)
def test_a_state_of_any_step_goes_on_as_the_unbroken_run_or_is_refused(make_store, settings, always_goes_on):
    """The steps that end an epoch, and all of a mixture, are others when documents follow."""
    random = np.random.default_rng(0)
    lengths = [random.integers(1, 60, 6).tolist() for _ in range(6)]
    old, grown = make_store(lengths[:4]), make_store(lengths)
    config = replace(CONFIG, **settings)
    of_old, of_grown = list(batches(old, config)), list(batches(grown, config))
    went_on = []
    for step in range(1, len(of_old) + 1):
        iterator, resumed = (iter(batches(store, config, start_step=step)) for store in (old, grown))
        try:
            resumed.set_state(iterator.get_state())
        except DataError:
            continue
        went_on.append(step)
        np.testing.assert_equal(of_old[:step], of_grown[:step])
    assert (len(went_on) == len(of_old)) == always_goes_on
    assert bool(went_on) == ("mixture" not in settings)


def test_other_documents_in_place_of_the_old_ones_are_refused(parts, tmp_path):
    write(parts[:1], tmp_path / "store")
    with pytest.raises(StoreError, match="must be as it was when it was prepared"):
        write(parts[::-1], tmp_path / "store")
    assert verify(Store.open(tmp_path / "store")) == []
