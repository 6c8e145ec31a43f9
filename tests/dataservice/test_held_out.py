import numpy as np
import pytest

from dataservice import DataConfig, buckets, held_out_batches

TRAINING = [[30, 9], [8], [50]]
HELD_OUT = [[3, 40, 1, 77, 9, 30, 64, 21, 100], [], [5, 2, 61]]


def config_of(**settings) -> DataConfig:
    return DataConfig(**{"min_length": 4, "max_length": 32, "tokens_per_step": 64, **settings})


def test_all_targets_of_the_first_window_come_once_when_enough_batches_are_asked_for(
    make_store, store_targets, batch_targets
):
    store = make_store(TRAINING, held_out=HELD_OUT)
    batches = held_out_batches(store, config_of(), num_batches_per_bucket=100)
    assert batch_targets(batches) == store_targets(store.held_out)
    first = make_store(HELD_OUT[:2])
    lengths = [sum(length + 1 for length in shard) for shard in HELD_OUT]
    batches = held_out_batches(store, config_of(window_shards=2), num_batches_per_bucket=100)
    assert batch_targets(batches).total() == store_targets(first).total() == lengths[0]


def test_every_bucket_gives_up_to_the_number_asked_for_and_no_row_twice(make_store, batch_targets):
    store = make_store(TRAINING, held_out=[[63] * 20 + [35] * 9, [], []])
    config = config_of()
    batches = held_out_batches(store, config, num_batches_per_bucket=2)
    seen = [(batch["length"], batch["packed"]) for batch in batches]
    # 20 x 64 tokens are 40 rows of 32, and 9 x 36 are 9 rows of 32 and 9 of 4: one batch of 16 rows, not full.
    assert seen == [(32, False), (32, False), (4, False)]
    assert [batch["weights"].sum() for batch in batches] == [2, 2, 9]
    assert max(batch_targets(batches).values()) == 1
    assert [batch["step"] for batch in batches] == [0, 1, 2]
    assert set(seen) <= set(buckets(config))


def test_the_choice_is_the_same_each_time_and_another_for_another_seed(make_store):
    store = make_store(TRAINING, held_out=[[63] * 20, [], []])
    first, again, other = (
        held_out_batches(store, config_of(seed=seed), num_batches_per_bucket=1) for seed in (0, 0, 1)
    )
    np.testing.assert_equal(first, again)
    assert not np.array_equal(first[0]["inputs"], other[0]["inputs"])


def test_blocks_are_parts_of_the_global_batches(make_store):
    store, config = make_store(TRAINING, held_out=HELD_OUT), config_of()
    whole = held_out_batches(store, config, num_batches_per_bucket=2)
    part = held_out_batches(store, config, num_batches_per_bucket=2, block=lambda bucket: (slice(1, 2), slice(0, 2)))
    for big, small in zip(whole, part, strict=True):
        assert np.array_equal(small["inputs"], big["inputs"][1:2, :2])
        assert np.array_equal(small["targets"], big["targets"][1:2, :2])


@pytest.mark.parametrize("held_out", [None, [[], [], []]])
def test_a_store_without_held_out_documents_gives_no_batches(make_store, held_out):
    assert held_out_batches(make_store(TRAINING, held_out=held_out), config_of(), num_batches_per_bucket=3) == []
