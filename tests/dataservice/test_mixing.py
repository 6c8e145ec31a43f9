from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataservice import DataConfig, DataError, StoreError, batches, held_out_batches, open_store
from dataservice.__main__ import main
from dataservice.store.mixing import MixedStore, interleave

SIZES = st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=8), min_size=1, max_size=4)


@given(SIZES, st.data())
def test_every_store_has_its_share_within_a_shard_at_every_place(sizes, data):
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(sizes), max_size=len(sizes)))
    stores, numbers = interleave([np.array(each) for each in sizes], weights)
    tokens = np.array([sizes[store][number] for store, number in zip(stores, numbers, strict=True)])
    total = max(sum(each) / weight for each, weight in zip(sizes, weights, strict=True))
    for store, (each, weight) in enumerate(zip(sizes, weights, strict=True)):
        # The shards of a store come in order, again and again, and once in all at least.
        assert numbers[stores == store].tolist() == [n % len(each) for n in range((stores == store).sum())]
        assert (stores == store).sum() >= len(each)
        assert abs(tokens[stores == store].sum() - weight * total) <= max(each)
    # At every place each store has come as far as every other, but for half a shard on either side.
    far = [np.cumsum(np.where(stores == s, tokens, 0)) / (weights[s] * total) for s in range(len(sizes))]
    slack = sum(max(each) / (weight * total) for each, weight in zip(sizes, weights, strict=True))
    assert np.ptp(far, axis=0).max() <= slack + 1e-9


@pytest.fixture
def two_stores(make_store):
    first = make_store([[5, 40, 3], [17], [64, 2, 9]], held_out=[[8], [20], [4]])
    second = make_store([[30, 1], [12, 12]], held_out=[[16], [33]], first_token=1000)
    return first, second


@pytest.mark.parametrize("tails", ["pack", "drop"])
def test_an_epoch_has_every_target_as_often_as_its_shard_comes(tmp_path, two_stores, batch_targets, tails):
    mixed = MixedStore.of(two_stores, [1, 2], tmp_path / "mixed")
    config = DataConfig(min_length=4, max_length=16, tokens_per_step=64, window_shards=3, tails=tails, prefetch=0)
    found = batch_targets(batches(mixed, config))
    expected: Counter = Counter()
    for store, number in zip(*mixed.members, strict=True):
        tokens = np.asarray(two_stores[store].tokens(number)).tolist()
        expected.update(pairwise(tokens))
    assert (found == expected) if tails == "pack" else (found <= expected and found.total() > 0)
    assert min(expected.values()) == 1 and max(expected.values()) > 1


def test_held_out_documents_are_there_once(tmp_path, two_stores, batch_targets):
    mixed = MixedStore.of(two_stores, [1, 5], tmp_path / "mixed")
    config = DataConfig(min_length=4, max_length=16, tokens_per_step=64)
    found = batch_targets(held_out_batches(mixed, config, num_batches_per_bucket=100))
    expected: Counter = Counter()
    for store in two_stores:
        for shard in range(len(store.shards)):
            expected.update(pairwise(np.asarray(store.held_out.tokens(shard)).tolist()))
    assert found == expected


def test_a_mixture_of_one_store_is_that_store(tmp_path, two_stores):
    config = DataConfig(min_length=4, max_length=16, tokens_per_step=64, prefetch=0)
    alone = iter(batches(two_stores[0], config))
    mixed = iter(batches(MixedStore.of(two_stores[:1], [3], tmp_path / "mixed"), config))
    for ours, theirs in zip(mixed, alone, strict=True):
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    assert mixed.get_state() == alone.get_state()


def test_sources_are_those_of_the_shard(tmp_path, two_stores):
    mixed = MixedStore.of(two_stores, [1, 1], tmp_path / "mixed")
    for shard, (store, number) in enumerate(zip(*mixed.members, strict=True)):
        assert mixed.sources(shard).equals(two_stores[store].sources(number))
    # Of 61 tokens in shards of 34 and 27, two passes and the shard whose middle is before the 150th.
    assert [line.split(": ")[1] for line in mixed.describe()] == [
        "150 tokens, 49.02% of an epoch, 1.00 passes",
        "156 tokens, 50.98% of an epoch, 2.56 passes",
    ]


def test_stores_that_do_not_go_together_are_refused(tmp_path, make_store, two_stores):
    growing = make_store([[5]], planned_shards=2)
    with pytest.raises(StoreError, match="must be complete to be mixed, got 1 of 2 shards"):
        MixedStore.of([two_stores[0], growing], [1, 1], tmp_path)
    with pytest.raises(StoreError, match="must hold documents to be mixed"):
        MixedStore.of([two_stores[0], make_store([[]])], [1, 1], tmp_path)


def test_data_store_takes_a_mixture(tmp_path, two_stores, capsys):
    weights = {str(store.path): weight for store, weight in zip(two_stores, (1.0, 2.0), strict=True)}
    config = DataConfig(store=weights, cache=str(tmp_path / "cache"), min_length=4, max_length=16, tokens_per_step=64)
    opened = open_store(config, two_stores[0].manifest.tokens_of.fingerprint)
    expected = MixedStore.of(two_stores, [1, 2], tmp_path / "mixed")
    assert opened.prefix_digest(len(opened.shards)) == expected.prefix_digest(len(expected.shards))
    first, second = weights
    options = ["--min-length", "4", "--max-length", "16", "--tokens-per-step", "64", "--cache", str(tmp_path / "cache")]
    assert main(["stats", f"{{{first}: 1, {second}: 2}}", *options]) == 0
    assert capsys.readouterr().out.startswith("\n".join(expected.describe()))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("{a: 1, b: x}", "STORE must be a store or {STORE: weight, ...}, got {a: 1, b: x}"),
        ("{a: 0}", "data.store[a] must be a weight above 0, got 0.0"),
        ("{a: 1}", "store must be a folder with a manifest.json, got a"),
    ],
)
def test_a_wrong_mixture_is_one_line(place, message, capsys):
    assert main(["stats", place]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize("weights", [(1e300, 1e-300), (1e12, 1.0)])
def test_weights_that_would_take_too_many_shards_are_refused(weights):
    with pytest.raises(DataError, match=r"data\.store must mix stores in at most 100,000,000 shards"):
        interleave([np.array([10, 10]), np.array([10])], weights)
