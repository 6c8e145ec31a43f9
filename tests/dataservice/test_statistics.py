import numpy as np
import pytest

from dataservice import DataConfig
from dataservice.loader import BatchDataset
from dataservice.statistics import format_statistics, mean_lengths, measure

LENGTHS = [[3, 40, 1, 77, 9, 30], [], [5, 2, 61, 18, 1, 1, 90]]
DOUBLINGS = 2 ** np.arange(6, 14)


def config_of(**settings) -> DataConfig:
    return DataConfig(**{"min_length": 4, "max_length": 32, "tokens_per_step": 32, **settings})


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


@pytest.mark.parametrize("tails", ["pack", "drop"])
def test_counts_are_those_of_an_epoch_through_the_loader(make_store, tails):
    store, config = make_store(LENGTHS), config_of(tails=tails)
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
    pairs = sum(size * (size - 1) for size in sizes)
    expected = (np.mean(sizes), pairs / (2 * sum(sizes)))
    assert (statistics.mean_sequence, statistics.mean_context) == pytest.approx(expected)
    all_targets = sum(length + 1 for shard in LENGTHS for length in shard)
    assert statistics.dropped_tokens == all_targets - sum(sizes)
    assert statistics.documents == 13


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
