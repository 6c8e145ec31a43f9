import numpy as np
import pytest

from dataservice import DataConfig, DataError, TokenFormat, write_store
from dataservice.config import SEQUENCES
from dataservice.loader import BatchDataset
from dataservice.statistics import format_kinds, format_statistics, mean_lengths, measure, measure_kinds

LENGTHS = [[3, 40, 1, 77, 9, 30], [], [5, 2, 61, 18, 1, 1, 90]]
DOUBLINGS = 2 ** np.arange(6, 14)


def config_of(**settings) -> DataConfig:
    return DataConfig(**{"min_length": 4, "max_length": 32, "tokens_per_step": 32, **settings})


@pytest.fixture(scope="module")
def published_store(tmp_path_factory):
    """Documents whose lengths have the published natural shares, 8192 tokens instead of 2^30."""
    shares = (3, 6, 10, 17, 21, 17, 13, 9)
    documents = [
        range(length - 1)
        for length, share in zip(DOUBLINGS.tolist(), shares, strict=True)
        for _ in range(share * 8192 // length)
    ]
    format_ = TokenFormat(fingerprint="f" * 64, vocab_size=1 << 16, eod=0)
    return write_store(tmp_path_factory.mktemp("published") / "store", {"shard": documents}, format_)


@pytest.mark.parametrize(
    ("mixture", "units", "sequence", "context"),
    [
        ("natural", (3, 6, 10, 17, 21, 17, 13, 9), 482, 1018),
        ("equal", (3,) * 8, 257, 1020),
        ("1k-only", (0, 0, 0, 0, 21, 0, 0, 0), 1024, 512),
        ("up-to-2k", (3, 3, 3, 3, 3, 3, 0, 0), 195, 336),
        ("256-and-up", (0, 0, 9, 9, 9, 9, 9, 9), 780, 1344),
        ("256-to-2k", (0, 0, 10, 10, 10, 10, 0, 0), None, None),
    ],
)
def test_named_mixtures_take_their_lengths_and_have_the_published_means(
    published_store, mixture, units, sequence, context
):
    statistics = measure(published_store, DataConfig(min_length=64, max_length=8192, mixture=mixture))
    plain = [found for found in statistics.buckets if not found.bucket.packed]
    taken = [found.rows_taken * found.bucket.length for found in plain]
    assert taken[::-1] == [8192 * count for count in units]
    assert all(found.rows_repeated == 0 for found in statistics.buckets)
    if sequence is not None:
        assert (statistics.mean_sequence, statistics.mean_context) == pytest.approx((sequence, context), abs=1)


def test_an_equal_mixture_of_a_length_that_the_store_lacks_is_refused(make_store):
    with pytest.raises(
        DataError, match=r"data\.mixture must name lengths that the store has, got equal and no row of 32"
    ):
        measure(make_store([[3, 7, 15]]), config_of(mixture="equal"))


@pytest.mark.parametrize(
    ("gibitokens", "sequence", "context"),
    [
        # Published for lengths 64 to 8192 (arXiv 2405.13226).
        ((3, 6, 10, 17, 21, 17, 13, 9), 482, 1018),
        ((12, 12, 12, 12, 12, 12, 12, 12), 257, 1020),
        ((0, 0, 0, 0, 96, 0, 0, 0), 1024, 512),
        ((16, 16, 16, 16, 16, 16, 0, 0), 195, 336),
        ((0, 0, 16, 16, 16, 16, 16, 16), 780, 1344),
    ],
)
def test_named_mixtures_have_the_published_mean_lengths(gibitokens, sequence, context):
    found = mean_lengths(DOUBLINGS, np.array(gibitokens) * 2**30 / DOUBLINGS)
    assert found == pytest.approx((sequence, context), abs=1)


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("tails", ["pack", "drop"])
def test_counts_are_those_of_an_epoch_through_the_loader(make_store, tails, kind):
    store, config = make_store(LENGTHS), config_of(tails=tails, sequences=kind)
    statistics = measure(store, config)
    batches = list(BatchDataset(store, config))
    assert statistics.steps == len(batches)
    sizes = []
    for found in statistics.buckets:
        mine = [batch for batch in batches if (batch["length"], batch["packed"]) == found.bucket]
        assert found.steps == len(mine)
        if found.bucket.packed:
            tails_of_row = [np.unique(row[row > 0], return_counts=True)[1] for b in mine for row in b["segments"]]
            sizes += np.concatenate(tails_of_row).tolist()
            assert found.tokens == sum((batch["segments"] > 0).sum() for batch in mine)
        else:
            rows = int(sum(batch["weights"].sum() for batch in mine))
            assert (found.rows, found.tokens) == (rows, rows * found.bucket.length)
            sizes += [found.bucket.length] * rows
        assert found.rows_left_out == found.rows_repeated == 0
        places = found.rows * found.bucket.length
        assert found.tokens == pytest.approx((1 - found.padding) * places)
    pairs = sum(size * (size - 1) for size in sizes)
    expected = (np.mean(sizes), pairs / (2 * sum(sizes)))
    assert (statistics.mean_sequence, statistics.mean_context) == pytest.approx(expected)
    all_targets = sum(length + 1 for shard in LENGTHS for length in shard)
    assert statistics.dropped_tokens == all_targets - sum(sizes)
    assert statistics.documents == 13


def test_every_kind_is_measured_as_if_it_were_chosen(make_store):
    store = make_store(LENGTHS)
    config = config_of(mixture={32: 64}, curriculum=(1.0, 2.0, 3.0, 4.0))
    kinds = measure_kinds(store, config)
    assert list(kinds) == list(SEQUENCES)
    for kind, found in kinds.items():
        assert found == measure(store, config_of(sequences=kind))
        assert found.dropped_tokens == 0
    # One document a row has no more context than several; cut documents have less than whole ones.
    context = {kind: found.mean_context for kind, found in kinds.items()}
    assert context["concatenated-masked"] < context["packed"] < context["concatenated"]
    assert kinds["packed"].padding >= kinds["concatenated"].padding == kinds["concatenated-masked"].padding
    lines = format_kinds(kinds).splitlines()
    assert [line.split()[0] for line in lines] == ["sequences", *SEQUENCES]
    one_length = config_of(sequences="packed", min_length=64, curriculum=(1.0,), step_seconds={1: 1.0})
    assert list(measure_kinds(store, one_length)) == list(SEQUENCES)


def test_a_mixture_states_what_it_leaves_out_and_repeats(make_store):
    store = make_store(LENGTHS)
    natural = {found.bucket: found.rows for found in measure(store, config_of()).buckets}
    statistics = measure(store, config_of(mixture={32: 32 * 20}))
    for found in statistics.buckets:
        taken = 20 if found.bucket.length == 32 else 0
        assert (found.rows, found.rows_taken) == (natural[found.bucket], taken)
        assert found.rows_left_out == max(natural[found.bucket] - taken, 0)
        assert found.rows_repeated == max(taken - natural[found.bucket], 0)
    assert statistics.mean_sequence == 32
    table = format_statistics(statistics)
    assert "left out" in table and "repeated" in table and "32" in table.splitlines()[1]
