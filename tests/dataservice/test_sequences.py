"""What holds of every kind of sequences, through the loader."""

import hashlib
from collections import Counter
from itertools import chain, islice

import grain
import numpy as np
import pytest

from dataservice import DataConfig, DataError, batches, buckets, open_schedule, schedule_digest
from dataservice.config import SEQUENCES
from dataservice.loader import BatchDataset

LENGTHS = [[3, 40, 1, 77, 9, 30], [], [5, 2, 61, 18, 1, 1, 90], [33], [12, 7, 7, 25, 50, 4], [4]]
RIVALS = SEQUENCES[1:]


def config_of(**settings) -> DataConfig:
    defaults = {"min_length": 4, "max_length": 32, "tokens_per_step": 64, "window_shards": 2, "cycles": 2}
    return DataConfig(**{**defaults, **settings})


def count_dropped(kind: str, lengths: list[list[int]]) -> int:
    """Targets that tails=drop leaves out: what no whole row of the shortest length holds."""
    if kind == "packed":
        return 0
    shortest = 4 if kind in ("decomposed", "grow-length") else 32
    inputs = [[length + 1 for length in shard] for shard in lengths]
    stretches = list(chain.from_iterable(inputs)) if kind == "decomposed" else [sum(shard) for shard in inputs]
    return sum(stretch % shortest for stretch in stretches)


@pytest.mark.parametrize("tails", ["pack", "drop"])
@pytest.mark.parametrize("kind", SEQUENCES)
def test_an_epoch_has_every_target_once_and_the_same_batches_on_any_number_of_hosts(
    make_store, store_targets, batch_targets, block_of, join_hosts, kind, tails
):
    store = make_store(LENGTHS)
    for window_shards in (0, 1, 2):
        config = config_of(sequences=kind, tails=tails, window_shards=window_shards)
        whole = list(BatchDataset(store, config))
        found, expected = batch_targets(whole), store_targets(store)
        assert not found - expected
        assert (expected - found).total() == (count_dropped(kind, LENGTHS) if tails == "drop" else 0)
        for num_hosts in (2, 4, 8):
            hosts = [BatchDataset(store, config, block=block_of(host, num_hosts, config)) for host in range(num_hosts)]
            joined = [join_hosts(parts, config) for parts in zip(*hosts, strict=True)]
            np.testing.assert_equal(joined, whole)


@pytest.mark.parametrize("kind", SEQUENCES)
def test_epochs_repeat_every_target_in_another_order(make_store, store_targets, batch_targets, kind):
    store = make_store(LENGTHS)
    whole = list(BatchDataset(store, config_of(sequences=kind, epochs=2)))
    assert set(batch_targets(whole).values()) == {2}
    halves = whole[: len(whole) // 2], whole[len(whole) // 2 :]
    assert batch_targets(halves[0]) == batch_targets(halves[1]) == store_targets(store)
    first, second = ([batch["inputs"].tobytes() for batch in half] for half in halves)
    assert first != second


@pytest.mark.parametrize("kind", SEQUENCES)
def test_a_run_cut_at_random_steps_and_resumed_on_other_hosts_is_the_unbroken_one(
    make_store, block_of, join_hosts, kind
):
    store, config = make_store(LENGTHS), config_of(sequences=kind, epochs=3, prefetch=1)
    whole = list(BatchDataset(store, config))
    generator = np.random.default_rng(len(kind))
    step, state, pieced, seen_hosts = 0, None, [], set()
    while step < len(whole):
        num_hosts, length = 2 ** int(generator.integers(0, 4)), int(generator.integers(1, 6))
        seen_hosts.add(num_hosts)
        iterators = [iter(batches(store, config, block=block_of(host, num_hosts, config))) for host in range(num_hosts)]
        for iterator in iterators:
            if state is not None:
                iterator.set_state(state)
        parts = zip(*(list(islice(iterator, length)) for iterator in iterators), strict=True)
        pieced += [join_hosts(part, config) for part in parts]
        state = iterators[0].get_state()
        step = state["step"]
        for iterator in iterators:
            iterator.close()
    assert len(seen_hosts) > 1
    np.testing.assert_equal(pieced, whole)


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("kind", SEQUENCES)
def test_outputs_are_equal_after_any_checkpoint(make_store, kind, prefetch):
    config = config_of(sequences=kind, prefetch=prefetch)
    grain.experimental.assert_equal_output_after_checkpoint(batches(make_store(LENGTHS[:3]), config))


@pytest.mark.parametrize("kind", ["concatenated-masked", "packed", "decomposed"])
def test_segments_are_stretches_of_one_document(make_store, kind):
    store = make_store(LENGTHS)
    for batch in BatchDataset(store, config_of(sequences=kind)):
        if not batch["packed"]:
            continue
        for inputs, targets, segments in zip(*(batch[n] for n in ("inputs", "targets", "segments")), strict=True):
            for number in range(1, int(segments.max(initial=0)) + 1):
                (places,) = np.nonzero(segments == number)
                assert np.array_equal(places, np.arange(places[0], places[-1] + 1))
                # Token 0 stands between documents; within one, tokens count up.
                assert (inputs[places[1:]] == targets[places[:-1]]).all()
                assert (inputs[places[1:]] != 0).all()


@pytest.mark.parametrize("kind", ["concatenated", "grow-length"])
def test_rows_of_joined_documents_go_on_where_a_document_ends_and_attention_with_them(make_store, kind):
    store = make_store(LENGTHS)
    borders = 0
    for batch in BatchDataset(store, config_of(sequences=kind)):
        if batch["packed"]:
            assert set(np.unique(batch["segments"])) <= {0, 1}
            lengths = (batch["segments"] > 0).sum(axis=1)
            assert all((row[:length] == 1).all() for row, length in zip(batch["segments"], lengths, strict=True))
        else:
            lengths = np.where(batch["weights"] > 0, batch["length"], 0)
        for inputs, targets, length in zip(batch["inputs"], batch["targets"], lengths.tolist(), strict=True):
            assert np.array_equal(inputs[1:length], targets[: max(length - 1, 0)])
            borders += int((inputs[1:length] == 0).sum())
    assert borders > 5


def test_masking_keeps_the_rows_and_only_stops_attention(make_store):
    store = make_store(LENGTHS)

    def rows_of(kind: str) -> Counter:
        return Counter(
            row.tobytes() for batch in BatchDataset(store, config_of(sequences=kind)) for row in batch["inputs"]
        )

    joined, masked = rows_of("concatenated"), rows_of("concatenated-masked")
    blank = np.zeros(32, store.dtype).tobytes()
    joined.pop(blank, None)
    masked.pop(blank, None)
    assert joined == masked


@pytest.mark.parametrize("kind", RIVALS)
def test_seeds_have_rows_of_their_own_but_where_packing_decides(make_store, kind):
    store = make_store([LENGTHS[0] + LENGTHS[2]])

    def rows_of(seed: int) -> set[bytes]:
        dataset = BatchDataset(store, config_of(sequences=kind, seed=seed))
        return {row.tobytes() for batch in dataset for row in batch["inputs"]}

    assert (rows_of(0) == rows_of(1)) == (kind == "packed")
    assert rows_of(0) == rows_of(0)


def test_grow_length_goes_from_short_to_long_in_every_cycle_with_equal_shares(make_store):
    store = make_store([[150] * 10, [90] * 20])
    config = config_of(sequences="grow-length", window_shards=1, cycles=1, tokens_per_step=32)
    whole = list(BatchDataset(store, config))
    lengths = [batch["length"] for batch in whole]
    falls = [step for step in range(1, len(lengths)) if lengths[step] < lengths[step - 1]]
    assert len(falls) == 1 and lengths[0] == 4 and lengths[-1] == 32
    tokens = Counter()
    for batch in whole:
        tokens[batch["length"]] += int((batch["segments"] > 0).sum() if batch["packed"] else batch["weights"].sum())
    plain = {batch["length"]: 0 for batch in whole}
    for batch in whole:
        plain[batch["length"]] += 0 if batch["packed"] else int(batch["weights"].sum()) * batch["length"]
    share = (10 * 151 + 20 * 91) / 4
    assert all(abs(count - share) <= 2 * 32 for count in plain.values())


def test_lengths_that_no_row_takes_are_not_asked_for():
    for kind in ("concatenated", "concatenated-masked", "packed"):
        config = DataConfig(sequences=kind, max_length=32, tokens_per_step=32, curriculum=(1.0, 2.0, 3.0))
        assert config.lengths == (32,)
        assert {bucket.length for bucket in buckets(config)} == {32}
    with pytest.raises(DataError, match="max_length must be a power of two from 64"):
        DataConfig(sequences="grow-length", max_length=32)
    with pytest.raises(DataError, match=r"data\.sequences must be one of decomposed, concatenated, .*, got 'chunked'"):
        config_of(sequences="chunked")


@pytest.mark.parametrize("kind", SEQUENCES)
def test_a_store_without_a_row_is_refused(make_store, kind):
    with pytest.raises(DataError, match="the store must hold a"):
        next(iter(BatchDataset(make_store([[], []]), config_of(sequences=kind))))


@pytest.mark.parametrize("kind", ["concatenated", "concatenated-masked", "grow-length"])
def test_a_shard_that_fills_no_row_is_said_to_be_too_small(make_store, kind):
    with pytest.raises(DataError, match=r"the store must hold a shard of (4|32) tokens or more, got none"):
        next(iter(BatchDataset(make_store([[1]]), config_of(sequences=kind, tails="drop"))))


def test_whatever_changes_steps_changes_the_digest_of_the_schedule():
    changes = [{"sequences": kind} for kind in SEQUENCES]
    changes += [{"warmup_curriculum": "uniform"}, {"cooldown_curriculum": "uniform"}, {"mixture": "equal"}]
    changes += [{"step_seconds": {4: 1.0, 8: 1.0, 16: 1.0, 32: 2.0}}, {"curriculum": "grow-p2"}]
    assert len({schedule_digest(config_of(**change)) for change in changes}) == len(changes)


@pytest.mark.parametrize("seed", range(8))
def test_any_corpus_and_settings_give_every_target_once(make_store, store_targets, batch_targets, seed):
    generator = np.random.default_rng(seed)
    num_shards = int(generator.integers(1, 6))
    store = make_store([generator.integers(1, 120, generator.integers(0, 12)).tolist() for _ in range(num_shards)])
    expected = store_targets(store)
    min_power, extra = generator.integers(0, 4, 2).tolist()
    length = 2 ** (min_power + extra)
    for kind in SEQUENCES if expected else ():
        settings = {"min_length": 2**min_power, "max_length": length, "tokens_per_step": length * 2 ** (seed % 3)}
        choices = {"window_shards": seed % 4, "cycles": 1 + seed % 5, "seed": seed, "curriculum": "grow-p2"}
        assert batch_targets(BatchDataset(store, config_of(sequences=kind, **settings, **choices))) == expected


@pytest.mark.parametrize("kind", SEQUENCES)
def test_the_first_window_of_a_store_in_the_making_needs_no_other(make_store, kind):
    config = config_of(sequences=kind, tokens_per_step=32)
    store = make_store(LENGTHS)
    schedule, finished = open_schedule(store, config), list(BatchDataset(store, config))
    windows = [position.window for position in map(schedule.locate, range(len(finished))) if position]
    growing = make_store(LENGTHS[:2], planned_shards=len(LENGTHS))
    begun = list(islice(iter(BatchDataset(growing, config)), windows.count(0)))
    assert len(growing.shards) == 2 and begun
    np.testing.assert_equal(begun, finished[: len(begun)])


def test_rows_and_their_order_are_those_that_checkpoints_were_written_under(make_store):
    store = make_store(LENGTHS)
    digests = {}
    for kind in SEQUENCES:
        digest = hashlib.sha256()
        for batch in BatchDataset(store, config_of(sequences=kind, seed=11)):
            digest.update(batch["inputs"].tobytes() + batch["targets"].tobytes())
        digests[kind] = digest.hexdigest()[:12]
    # A change here needs another version in schedule_digest.
    assert digests == {
        "decomposed": "ef52800cd9d0",
        "concatenated": "19931ce1a904",
        "concatenated-masked": "a921dbc25d1d",
        "packed": "8ad9ed77de18",
        "grow-length": "85f000f65ade",
    }
