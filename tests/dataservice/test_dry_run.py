import numpy as np
import pytest

from dataservice import DataConfig, buckets, open_schedule
from dataservice.config import SEQUENCES
from dataservice.dry_run import curriculum_lines
from dataservice.loader import BatchDataset

LENGTHS = [[3, 40, 1, 77, 9, 30], [], [5, 2, 61, 18, 1, 1, 90]]


@pytest.mark.parametrize("kind", SEQUENCES)
def test_a_line_a_step_says_what_the_step_trains_on(make_store, kind):
    settings = {"sequences": kind, "min_length": 4, "max_length": 32, "tokens_per_step": 32, "window_shards": 2}
    store, config = make_store(LENGTHS), DataConfig(**settings, cycles=2, epochs=2)
    header, *lines = curriculum_lines(store, config, every=1)
    names = [f"{bucket.length}{' packed' if bucket.packed else ''}" for bucket in buckets(config)]
    assert header.split() == ["steps", "epoch", "window", "cycle", "mean", "length", *" ".join(names).split()]
    batches, schedule = list(BatchDataset(store, config)), open_schedule(store, config)
    for line, batch in zip(lines, batches, strict=True):
        step, epoch, window, cycle, mean, *counts = line.split()
        position = schedule.locate(batch["step"])
        assert position is not None
        assert int(step) == batch["step"] and float(mean) == batch["length"]
        assert (int(epoch), int(window), int(cycle)) == (position.epoch, position.window, position.cycle)
        assert counts.index("1") == buckets(config).index((batch["length"], batch["packed"]))
        assert sum(map(int, counts)) == 1


def test_lines_for_several_steps_add_up_and_end_with_a_cycle(make_store):
    store = make_store([[50] * 40, [70] * 30])
    config = DataConfig(min_length=4, max_length=32, tokens_per_step=32, window_shards=1, cycles=3)
    one_by_one = [list(map(int, line.split()[5:])) for line in list(curriculum_lines(store, config, every=1))[1:]]
    for every in (0, 7):
        _, *lines = curriculum_lines(store, config, every=every)
        next_step, places = 0, []
        for line in lines:
            words = line.split()
            first, last = int(words[0]), int(words[2] if words[1] == "to" else words[0])
            epoch, window, cycle, mean, *counts = words[3:] if words[1] == "to" else words[1:]
            assert first == next_step
            next_step = last + 1
            assert list(map(int, counts)) == np.sum(one_by_one[first : last + 1], axis=0).tolist()
            rows = sum(int(count) * 32 // bucket.length for count, bucket in zip(counts, buckets(config), strict=True))
            assert float(mean) == pytest.approx((last + 1 - first) * 32 / rows, abs=0.05)
            places.append((epoch, window, cycle))
        assert next_step == len(one_by_one)
        assert len(set(places)) == 6
        assert every or max(map(places.count, places)) <= 10
