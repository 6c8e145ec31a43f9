import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dataservice import DataConfig, DataError, Retention, Store, StoreError, batches, open_data, open_schedule, verify
from dataservice.store import removal as removals
from dataservice.store.removal import Removal
from tokenizer import CorpusConfig, Tokenizer

TOKENIZER = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))
CONFIG = DataConfig(
    window_shards=2, ahead_windows=1, keep_windows=0, min_length=4, max_length=16, tokens_per_step=64, cycles=2
)
# Two shards a window: short documents but for one long one now and then, whose rows lie over for many windows.
NUM_SHARDS = 24
LENGTHS = [[3 + shard % 5, 7, 12] * 6 + [17] * (shard % 9 == 0) for shard in range(NUM_SHARDS)]


def steps_of(store: Store, config: DataConfig, start: int = 0) -> list[tuple]:
    iterator = iter(batches(store, replace(config, prefetch=0), start_step=start))
    return [(batch["step"], batch["length"], batch["inputs"].tobytes()) for batch in iterator]


def held_shards(store: Store) -> set[int]:
    return {
        shard for shard, name in enumerate(store.shards.names) if (store.path / "shards" / name / "tokens.npy").exists()
    }


@pytest.mark.parametrize("tails", ["pack", "drop"])
@pytest.mark.parametrize("keep", [0, 2])
@pytest.mark.parametrize("sequences", ["decomposed", "packed", "concatenated"])
def test_every_checkpoint_resumes_exactly_while_windows_go_behind_the_oldest(make_store, tails, keep, sequences):
    config = replace(CONFIG, tails=tails, keep_windows=keep, sequences=sequences)
    expected = steps_of(make_store(LENGTHS), config)
    store = make_store(LENGTHS)
    most = 0
    for oldest in range(1, len(expected) + 1, 7):
        # A process that was started anew, as after every kill.
        schedule = open_schedule(Store.open(store.path), config)
        Retention(store, config, schedule).release(oldest)
        most = max(most, len(held_shards(store)))
        assert steps_of(Store.open(store.path), config, oldest) == expected[oldest:]
    rows_of_a_batch = sum(config.tokens_per_step // length for length in (4, 8, 16, 4))
    assert len(held_shards(store)) <= 2 * (1 + keep) + rows_of_a_batch
    assert most == len(LENGTHS) and len(held_shards(store)) < len(LENGTHS) // 2


def test_a_shard_stays_for_as_long_as_a_row_of_it_is_to_come_and_no_longer(make_store):
    store = make_store(LENGTHS)
    schedule = open_schedule(store, CONFIG)
    retention = Retention(store, CONFIG, schedule)
    last_use: dict[int, int] = {}
    window_of = []
    for step in range(schedule.num_steps()):
        position = schedule.locate(step)
        assert position is not None
        rows = schedule.rows(position).ravel()
        shards, _ = schedule.windows.find_shards(position.bucket, rows[rows >= 0])
        last_use |= dict.fromkeys(shards.tolist(), step)
        window_of.append(position.window)
    for step in range(1, schedule.num_steps()):
        retention.release(step)
        held = held_shards(store)
        assert {shard for shard, last in last_use.items() if last >= step} <= held
        window = window_of[step - 1]
        starts = window_of.index(window)
        assert held <= {shard for shard, last in last_use.items() if last >= starts} | set(
            range(2 * window, NUM_SHARDS)
        )


def test_a_kill_at_any_moment_of_a_removal_leaves_a_store_that_goes_on(make_store, monkeypatch):
    expected = steps_of(make_store(LENGTHS), CONFIG)
    step = len(expected) // 2
    unlink = Path.unlink
    for survived in (0, 1, 3, 20):
        store = make_store(LENGTHS)
        assert steps_of(store, CONFIG)
        left = survived

        def unlink_or_die(path: Path, missing_ok: bool = False) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            unlink(path, missing_ok=missing_ok)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Path, "unlink", unlink_or_die)
            Retention(store, CONFIG, open_schedule(store, CONFIG)).release(step)
        again = Store.open(store.path)
        assert steps_of(again, CONFIG, step) == expected[step:] and not verify(again)
        # What the killed one left goes with the next removal.
        Retention(again, CONFIG, open_schedule(again, CONFIG)).release(len(expected))
        removal = Removal.read(store.path)
        assert removal is not None
        assert held_shards(again) == {shard for shard in range(NUM_SHARDS) if removal.holds(shard)}


def test_a_kill_before_it_is_said_what_goes_removes_nothing(make_store, monkeypatch):
    store = make_store(LENGTHS)

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(removals, "write_sealed_json", die)
    with pytest.raises(KeyboardInterrupt):
        Retention(store, CONFIG, open_schedule(store, CONFIG)).release(12)
    assert held_shards(store) == set(range(NUM_SHARDS)) and Removal.read(store.path) is None


def test_earlier_steps_and_other_schedules_are_refused_in_a_line(make_store):
    store = make_store(LENGTHS)
    Retention(store, CONFIG, open_schedule(store, CONFIG)).release(12)
    again = Retention(store, CONFIG, open_schedule(store, CONFIG))
    again.refuse_passed(12)
    with pytest.raises(DataError, match=r"windows of step 0, got its first \d+ shards removed .*data.keep_windows"):
        again.refuse_passed(0)
    other = replace(CONFIG, seed=1)
    with pytest.raises(DataError, match="windows of step 12"):
        Retention(store, other, open_schedule(store, other)).refuse_passed(12)
    with pytest.raises(StoreError, match="must be there"):
        steps_of(store, replace(CONFIG, min_length=8))
    (store.path / "removed" / "removal.json").write_text("{}")
    with pytest.raises(StoreError, match="damaged"):
        Removal.read(store.path)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux what is mapped")
def test_what_is_removed_is_given_back_to_the_disk(make_store):
    store = make_store(LENGTHS)
    steps_of(store, CONFIG)
    Retention(store, CONFIG, open_schedule(store, CONFIG)).release(12)
    lines = Path("/proc/self/maps").read_text().splitlines()
    assert not [line for line in lines if f"{store.path}/" in line and "(deleted)" in line]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"store": "store"}, "data.store must be null"),
        ({"window_shards": 0}, "data.window_shards must be 1 or more with data.keep_windows, got 0"),
        ({"ahead_windows": 0}, "data.ahead_windows must be 1 or more"),
        ({"epochs": 2}, "data.epochs must be 1 with data.keep_windows, got 2"),
        ({"mixture": "equal"}, "data.mixture must be natural"),
        ({"keep_windows": -1}, "data.keep_windows must be a whole number at least 0"),
    ],
)
def test_settings_that_read_windows_again_are_refused(settings, message):
    with pytest.raises(DataError, match=message):
        replace(CONFIG, **settings)


def test_documents_that_stream_in_take_no_more_disk_than_the_windows_in_use(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for index in range(16):
        lines = (json.dumps({"text": f"document {index} {row} " + "word " * (row % 7)}) for row in range(30))
        (folder / f"part-{index:02}.jsonl").write_text("\n".join(lines))
    corpus = CorpusConfig(paths=(str(folder / "*.jsonl"),), held_out_fraction=0.1, held_out_by="document")
    config = replace(CONFIG, workers=1, prefetch=0)
    whole = open_data(corpus, replace(config, cache=str(tmp_path / "whole"), keep_windows=None), TOKENIZER)
    expected = steps_of(whole, config)
    store = open_data(corpus, replace(config, cache=str(tmp_path / "own")), TOKENIZER)
    retention = Retention(store, config, open_schedule(store, config))
    found, most = [], 0
    for batch in iter(batches(store, config)):
        found.append((batch["step"], batch["length"], batch["inputs"].tobytes()))
        retention.release(batch["step"] + 1)
        store.refresh()
        most = max(most, len(held_shards(store)))
    assert found == expected
    # The window in use, those ahead that were asked for and are made, and less than a batch of each length.
    assert most < 16 and len(list((store.path / "held_out" / "shards").iterdir())) == 16
