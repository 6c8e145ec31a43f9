import threading
from itertools import islice

import grain
import numpy as np
import pytest
from absl import flags

from dataservice import DataConfig, DataError, batches, buckets, open_schedule, prefix_digest, schedule_digest
from dataservice.loader import BatchDataset

LENGTHS = [[3, 40, 1, 77, 9, 30], [], [5, 2, 61, 18, 1, 1, 90], [33], [12, 7, 7, 25, 50, 4]]


def config_of(**settings) -> DataConfig:
    defaults = {"min_length": 4, "max_length": 32, "tokens_per_step": 32, "curriculum": "grow-p2", "cycles": 2}
    return DataConfig(**{**defaults, **settings})


@pytest.mark.parametrize("num_hosts", [1, 2, 4, 8])
@pytest.mark.parametrize("window_shards", [0, 1, 2])
def test_an_epoch_has_every_target_once_and_the_same_batches_on_any_number_of_hosts(
    make_store, store_targets, batch_targets, block_of, join_hosts, num_hosts, window_shards
):
    store, config = make_store(LENGTHS), config_of(window_shards=window_shards)
    whole = list(BatchDataset(store, config))
    assert batch_targets(whole) == store_targets(store)
    hosts = [list(BatchDataset(store, config, block=block_of(host, num_hosts, config))) for host in range(num_hosts)]
    joined = [join_hosts(parts, config) for parts in zip(*hosts, strict=True)]
    np.testing.assert_equal(joined, whole)


def test_dropped_tails_are_all_that_an_epoch_without_packing_leaves_out(make_store, store_targets, batch_targets):
    store = make_store(LENGTHS)
    left_out = store_targets(store) - batch_targets(BatchDataset(store, config_of(tails="drop")))
    assert left_out.total() == sum((length + 1) % 4 for shard in LENGTHS for length in shard)
    assert not batch_targets(BatchDataset(store, config_of(tails="drop"))) - store_targets(store)


@pytest.mark.parametrize("first_token", [1, 70_000])
def test_batches_are_contiguous_arrays_of_the_stores_tokens(make_store, first_token):
    store, config = make_store(LENGTHS, first_token=first_token), config_of()
    for step, batch in enumerate(BatchDataset(store, config)):
        assert batch["step"] == step
        shape = (32 // batch["length"], batch["length"])
        assert ("segments" in batch) == batch["packed"] == ("weights" not in batch)
        for name in ("inputs", "targets"):
            assert batch[name].shape == shape and batch[name].dtype == store.dtype
            assert batch[name].flags.c_contiguous
        if batch["packed"]:
            assert batch["segments"].dtype == np.int32 and batch["segments"].shape == shape
        else:
            assert batch["weights"].dtype == np.float32 and batch["weights"].shape == shape[:1]


def test_rows_are_stretches_of_a_shard_and_packed_tails_have_segments_from_one(make_store):
    store = make_store(LENGTHS)
    for batch in BatchDataset(store, config_of()):
        segments = batch["segments"] if batch["packed"] else np.ones(batch["inputs"].shape, dtype=int)
        inputs, targets = batch["inputs"].astype(int), batch["targets"].astype(int)
        same = segments[:, 1:] == segments[:, :-1]
        assert (inputs[:, 1:] == targets[:, :-1])[same & (segments[:, 1:] > 0)].all()
        if batch["packed"]:
            for row in segments:
                tails = row[row > 0]
                assert (row[len(tails) :] == 0).all()
                assert np.isin(np.diff(np.r_[0, tails]), (0, 1)).all()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_outputs_are_equal_after_any_checkpoint(make_store, prefetch):
    store = make_store(LENGTHS[:3])
    grain.experimental.assert_equal_output_after_checkpoint(
        batches(store, config_of(prefetch=prefetch, window_shards=1))
    )


def test_a_run_cut_at_random_steps_and_resumed_on_other_hosts_is_the_unbroken_one(make_store, block_of, join_hosts):
    store, config = make_store(LENGTHS), config_of(window_shards=2, epochs=2, prefetch=1)
    whole = list(BatchDataset(store, config))
    generator = np.random.default_rng(0)
    step, state, pieced = 0, None, []
    while step < len(whole):
        num_hosts, length = 2 ** int(generator.integers(0, 3)), int(generator.integers(1, 12))
        iterators = [iter(batches(store, config, block=block_of(host, num_hosts, config))) for host in range(num_hosts)]
        for iterator in iterators:
            if state is not None:
                iterator.set_state(state)
        parts = zip(*(list(islice(iterator, length)) for iterator in iterators), strict=True)
        pieced += [join_hosts(part, config) for part in parts]
        states = [iterator.get_state() for iterator in iterators]
        assert all(other == states[0] for other in states)
        state, step = states[0], states[0]["step"]
        for iterator in iterators:
            iterator.close()
    np.testing.assert_equal(pieced, whole)


def test_a_start_and_a_number_of_steps_give_that_part_of_the_run(make_store):
    store, config = make_store(LENGTHS), config_of()
    whole = list(BatchDataset(store, config))
    np.testing.assert_equal(list(BatchDataset(store, config, start_step=5, num_steps=9)), whole[5:14])
    assert list(BatchDataset(store, config, start_step=9, num_steps=0)) == []
    np.testing.assert_equal(list(BatchDataset(store, config, start_step=len(whole) - 2, num_steps=9)), whole[-2:])


def test_a_store_in_the_making_gives_the_batches_of_the_finished_one(make_store, tmp_path):
    store, config = make_store(LENGTHS), config_of(window_shards=2)
    finished = list(BatchDataset(store, config))
    schedule = open_schedule(store, config)
    windows = [position.window for position in map(schedule.locate, range(len(finished))) if position]
    growing = make_store(LENGTHS[:2], planned_shards=5, path=tmp_path / "growing")
    growing.writer_fault = lambda: None
    iterator = iter(BatchDataset(growing, config))
    begun = [next(iterator) for _ in range(windows.count(0))]
    assert len(growing.shards) == 2
    writer = threading.Thread(target=lambda: make_store(LENGTHS, path=tmp_path / "growing"))
    writer.start()
    rest = list(iterator)
    writer.join()
    assert 0 < len(begun) < len(finished)
    np.testing.assert_equal(begun + rest, finished)


def run_to_end(function):
    """Whether a call ends: one that would wait for ever gets more time than any machine needs."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(30)
    return not thread.is_alive()


@pytest.mark.parametrize("prefetch", [1, 3])
def test_an_iterator_that_waits_for_a_window_can_be_closed(make_store, prefetch):
    store, config = make_store(LENGTHS[:2], planned_shards=5), config_of(window_shards=2, prefetch=prefetch)
    waits = threading.Event()
    first_window = next(open_schedule(make_store(LENGTHS), config_of(window_shards=2, cycles=1)).cycles())
    iterator = iter(batches(store, config))
    store.writer_fault = waits.set
    for _ in first_window.buckets:
        next(iterator)
    assert waits.wait(30)
    assert run_to_end(iterator.close)
    with pytest.raises(ValueError, match="closed"):
        next(iterator)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_end_before_a_window_that_is_missing_once_they_are_stopped(make_store, prefetch):
    config = config_of(window_shards=2, prefetch=prefetch)
    whole = list(BatchDataset(make_store(LENGTHS), config))
    store, stop, given = make_store(LENGTHS[:2], planned_shards=5), threading.Event(), []
    store.writer_fault = stop.set  # asked when the wait has begun
    assert run_to_end(lambda: given.extend(batches(store, config, is_stopped=stop.is_set)))
    assert 0 < len(given) < len(whole)
    np.testing.assert_equal(given, whole[: len(given)])


def test_a_mixture_needs_a_complete_store(make_store):
    store = make_store(LENGTHS[:2], planned_shards=5)
    with pytest.raises(DataError, match="store must be complete for a mixture of lengths, got 2 of 5 shards"):
        iter(BatchDataset(store, config_of(mixture={4: 100})))


def test_a_state_of_other_settings_or_other_data_is_refused(make_store):
    store, config = make_store(LENGTHS), config_of(window_shards=2)
    iterator = iter(BatchDataset(store, config))
    next(iterator)
    state = iterator.get_state()
    data = prefix_digest(store, open_schedule(store, config), 1)
    assert state == {"step": 1, "data": data, "schedule": schedule_digest(config)}
    with pytest.raises(DataError, match=r"schedule digest of the checkpoint must be .*restore the data"):
        iter(BatchDataset(store, config_of(window_shards=2, seed=1))).set_state(state)
    other = make_store([[4, *LENGTHS[0]], *LENGTHS[1:]])
    with pytest.raises(DataError, match=r"data digest of the checkpoint must be .*use the store of the run"):
        iter(BatchDataset(other, config)).set_state(state)
    # Documents of later windows, more epochs, and how batches are made leave a state as it is.
    later = make_store([*LENGTHS[:4], [9]])
    iter(BatchDataset(later, config_of(window_shards=2, epochs=3, prefetch=0, workers=2))).set_state(state)


def test_a_state_of_something_else_is_refused(make_store):
    with pytest.raises(DataError, match=r"data state must have data, schedule, step, got \{'next_index': 3\}; restore"):
        iter(BatchDataset(make_store(LENGTHS), config_of())).set_state({"next_index": 3})


def test_states_already_given_do_not_change(make_store):
    iterator = iter(batches(make_store(LENGTHS), config_of()))
    states = []
    for _ in range(4):
        states.append((iterator.get_state(), dict(iterator.get_state())))
        next(iterator)
    iterator.close()
    assert all(state == copy for state, copy in states)
    assert [state["step"] for state, _ in states] == [0, 1, 2, 3]


def test_a_store_without_a_row_is_refused(make_store):
    with pytest.raises(DataError, match="the store must hold a document of 4 tokens or more"):
        next(iter(BatchDataset(make_store([[1], [2]]), config_of(tails="drop"))))


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_can_be_mapped_and_filtered_and_resume_exactly_all_the_same(make_store, prefetch):
    store, config = make_store(LENGTHS[:3]), config_of(prefetch=prefetch)
    dataset = batches(store, config).filter(lambda batch: not batch["packed"]).map(lambda batch: batch["inputs"] * 2)
    expected = [batch["inputs"] * 2 for batch in BatchDataset(store, config) if not batch["packed"]]
    np.testing.assert_equal(list(dataset), expected)
    assert len(expected) > 3 and len(buckets(config)) == 5
    grain.experimental.assert_equal_output_after_checkpoint(dataset)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_other_processes_are_refused_rather_than_given_every_batch(make_store, prefetch):
    flags.FLAGS.mark_as_parsed()
    dataset = batches(make_store(LENGTHS), config_of(prefetch=prefetch)).map(len)
    with pytest.raises(DataError, match=r"must be made in this process, got mp_prefetch .*data\.prefetch"):
        next(iter(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))))
