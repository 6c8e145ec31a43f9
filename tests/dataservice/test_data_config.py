import pytest

from dataservice import Bucket, DataConfig, DataError, buckets, rows_per_step


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_length": 48}, "data.min_length must be a power of two from 1 to 1073741824, got 48; .*min_length=32"),
        ({"min_length": 50}, "min_length=64"),
        ({"max_length": 32}, "data.max_length must be a power of two from 64 .*max_length=64"),
        ({"tokens_per_step": 4096}, "data.tokens_per_step must be .* from 8192 .*tokens_per_step=8192"),
        ({"tokens_per_step": 100_000}, "tokens_per_step=131072"),
        ({"cycles": 0}, "data.cycles must be a whole number from 1 to 65536, got 0"),
        ({"seed": -1}, "data.seed must be a whole number from 0"),
        ({"prefetch": True}, "data.prefetch must be a whole number at least 0, got True"),
        ({"tails": "keep"}, "data.tails must be one of pack, drop, got 'keep'"),
        ({"curriculum": "grow"}, "data.curriculum must be one of uniform, grow-linear"),
        ({"curriculum": (1.0, 2.0)}, "data.curriculum must be a name or 8 odds"),
        ({"curriculum": (1, 1, 1, 1, 1, 1, 1, 0)}, "data.curriculum must hold odds above 0, got 0"),
        ({"mixture": "even"}, "data.mixture must be one of natural, equal, .* or {length: tokens}, got 'even'"),
        ({"mixture": "1k-only", "max_length": 512}, "data.mixture must have a length among 64, .*, got 1k-only"),
        (
            {"mixture": {64: 1}, "sequences": "packed"},
            "data.mixture must name lengths among 8192 .*, got 64; set data.mixture=natural",
        ),
        ({"warmup_curriculum": "grow"}, "data.warmup_curriculum must be one of uniform, .*, got 'grow'"),
        ({"cooldown_curriculum": (1.0,)}, "data.cooldown_curriculum must be a name or 8 odds"),
        ({"step_seconds": {64: 1.0}}, "data.step_seconds must name the lengths 64, 128, .*, got {64: 1.0}"),
        ({"step_seconds": {2**k: 0.0 for k in range(6, 14)}}, r"data.step_seconds\[64\] must be above 0, got 0.0"),
        ({"mixture": {100: 1}}, "data.mixture must name lengths among 64, 128, .*, got 100"),
        ({"mixture": {64: -1}}, "must be a number of tokens, got -1"),
        ({"mixture": {64: 0}}, "data.mixture must take some tokens"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line_that_mends_it(settings, words):
    with pytest.raises(DataError, match=words) as raised:
        DataConfig(**settings)
    assert "\n" not in str(raised.value)


def test_buckets_are_longest_first_and_the_packed_one_last():
    config = DataConfig(min_length=2, max_length=8, tokens_per_step=16)
    assert buckets(config) == (Bucket(8, False), Bucket(4, False), Bucket(2, False), Bucket(2, True))
    assert [rows_per_step(bucket, config) for bucket in buckets(config)] == [2, 4, 8, 8]
    assert not any(bucket.packed for bucket in buckets(DataConfig(tails="drop")))
    assert not any(bucket.packed for bucket in buckets(DataConfig(min_length=1)))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"cycles": 10**9}, r"data\.cycles must be a whole number from 1 to 65536"),
        ({"mixture": {64: 10**30}}, r"data.mixture\[64\] must be a number of tokens"),
    ],
)
def test_numbers_that_no_memory_holds_are_refused(settings, line):
    with pytest.raises(DataError, match=line):
        DataConfig(**settings)
