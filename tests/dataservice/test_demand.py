from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest

from dataservice import DataConfig, Store, batches, indexes, open_data, prepare
from dataservice.store.demand import Demand, raise_demand
from tokenizer import CorpusConfig, Tokenizer

TOKENIZER = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusConfig:
    """Twelve input shards."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for index in range(12):
        lines = (f'{{"text": "document {index} {row} {"word " * (row % 7)}"}}\n' for row in range(40))
        (folder / f"part-{index:02}.jsonl").write_text("".join(lines))
    return CorpusConfig(paths=(str(folder / "*.jsonl"),))


def test_what_is_wanted_follows_the_furthest_reader(tmp_path):
    demand = Demand(tmp_path, window_shards=3, ahead_windows=2)
    assert [demand.wants(shard) for shard in (0, 8, 9)] == [True, True, False]
    raise_demand(tmp_path, 6)
    raise_demand(tmp_path, 3)
    assert [demand.wants(shard) for shard in (9, 11, 12)] == [True, True, False]
    # Another writer, which carries on, knows what was needed.
    assert Demand(tmp_path, window_shards=3, ahead_windows=2).wants(11)
    demand.close()
    raise_demand(tmp_path, 99)
    assert list(tmp_path.iterdir()) == []


def test_no_reader_of_many_is_lost(tmp_path):
    demand = Demand(tmp_path, window_shards=1, ahead_windows=1)
    with ThreadPool(8) as pool:
        pool.map(lambda count: raise_demand(tmp_path, count), range(2000))
    assert demand.wants(1999) and not demand.wants(2000)


def test_half_a_line_is_read_when_it_is_whole(tmp_path):
    demand = Demand(tmp_path, window_shards=1, ahead_windows=1)
    with (tmp_path / "demand").open("ab") as file:
        file.write(b"12")
        file.flush()
        assert not demand.wants(2)
        file.write(b"0\n")
    assert demand.wants(120) and not demand.wants(121)


def data_config(folder: Path, **settings) -> DataConfig:
    lengths = {"min_length": 4, "max_length": 16, "tokens_per_step": 64}
    return DataConfig(cache=str(folder / "cache"), workers=1, window_shards=2, **lengths, **settings)


def test_training_meets_the_same_batches_with_and_without_a_bound_which_is_kept(corpus, tmp_path, monkeypatch):
    whole = prepare(corpus, TOKENIZER, tmp_path / "whole", workers=1)
    config = data_config(tmp_path, store=str(tmp_path / "whole"))
    expected = [batch["inputs"].tobytes() for batch in batches(Store.open(tmp_path / "whole"), config)]

    bounded = data_config(tmp_path, ahead_windows=1)
    store = open_data(corpus, bounded, TOKENIZER)
    assert store.num_planned_shards == whole.shards == 12
    needed, found = [2], []

    def note(folder, count):
        needed.append(count)
        raise_demand(folder, count)

    monkeypatch.setattr(indexes, "raise_demand", note)
    iterator = iter(batches(store, bounded, num_steps=len(expected)))
    try:
        for batch in iterator:
            found.append(batch["inputs"].tobytes())
            store.refresh()
            assert len(store.shards) <= max(needed) + 2
    finally:
        iterator.close()
    assert found == expected and max(needed) == 12
