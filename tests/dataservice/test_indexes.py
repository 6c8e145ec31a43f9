import dataclasses
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest

from dataservice import DataConfig, StoreError
from dataservice.config import SEQUENCES
from dataservice.indexes import RowIndexes
from dataservice.pieces import PiecedRows

LENGTHS = [[3, 40, 1, 77, 9, 30], [5, 2, 61]]


def config_of(**settings) -> DataConfig:
    return DataConfig(**{"min_length": 4, "max_length": 32, "tokens_per_step": 32, **settings})


def flat(rows):
    return [part.tolist() for rows_of in rows for part in (rows_of if isinstance(rows_of, PiecedRows) else (rows_of,))]


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("tails", ["pack", "drop"])
def test_a_cached_index_is_read_back_as_it_was_made(make_store, tails, kind):
    store, config = make_store(LENGTHS), config_of(tails=tails, sequences=kind)
    made = [flat(RowIndexes(store, config).rows(shard)) for shard in range(2)]
    files = sorted((store.path / "indexes").rglob("*.index"))
    assert len(files) == 2
    before = [file.stat().st_mtime_ns for file in files]
    assert [flat(RowIndexes(store, config).rows(shard)) for shard in range(2)] == made
    assert [file.stat().st_mtime_ns for file in files] == before


def test_a_damaged_index_is_made_again(make_store):
    store, config = make_store(LENGTHS), config_of()
    expected = flat(RowIndexes(store, config).rows(0))
    (path,) = (store.path / "indexes").rglob("*.index")
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    for position in generator.integers(0, len(whole), 60).tolist():
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        assert flat(RowIndexes(store, config).rows(0)) == expected
    for size in [0, 5, 8, 16, *generator.integers(0, len(whole), 20).tolist()]:
        path.write_bytes(whole[:size])
        assert flat(RowIndexes(store, config).rows(0)) == expected
        assert path.read_bytes() == whole


@pytest.mark.parametrize("left", [b"", b"half", bytes(100_000)])
def test_what_a_killed_process_left_of_an_index_is_taken_over(make_store, left):
    store, config = make_store(LENGTHS), config_of()
    expected = flat(RowIndexes(store, config).rows(0))
    (path,) = (store.path / "indexes").rglob("*.index")
    whole = path.read_bytes()
    path.unlink()
    path.with_suffix(".partial").write_bytes(left)
    assert flat(RowIndexes(store, config).rows(0)) == expected
    assert [path.read_bytes() for path in (store.path / "indexes").rglob("*.*")] == [whole]


def test_readers_that_make_one_index_at_once_all_have_it(make_store):
    store, config = make_store(LENGTHS), config_of()
    expected = flat(RowIndexes(store, config).rows(0))
    (path,) = (store.path / "indexes").rglob("*.index")
    with ThreadPool(8) as pool:
        for _ in range(20):
            path.unlink()
            found = pool.map(lambda _: flat(RowIndexes(store, config).rows(0)), range(8), chunksize=1)
            assert found == [expected] * 8 and flat(RowIndexes(store, config).rows(0)) == expected
            assert [file.suffix for file in path.parent.iterdir()] == [".index"]


def test_settings_have_indexes_of_their_own_and_no_partial_file_stays(make_store):
    store = make_store(LENGTHS)
    others = [{"sequences": kind} for kind in SEQUENCES[1:]] + [{"sequences": "concatenated", "seed": 1}]
    for settings in ({}, {"min_length": 8}, {"max_length": 16}, {"tails": "drop"}, *others):
        RowIndexes(store, config_of(**settings)).rows(0)
    files = [path for path in (store.path / "indexes").rglob("*") if path.is_file()]
    assert len(files) == len({path.parent for path in files}) == 9
    assert all(path.suffix == ".index" for path in files)


def test_a_store_without_room_for_indexes_is_read_all_the_same(make_store):
    store = make_store(LENGTHS)
    expected = flat(RowIndexes(make_store(LENGTHS), config_of()).rows(0))
    (store.path / "indexes").write_text("no folder")
    assert flat(RowIndexes(store, config_of()).rows(0)) == expected


def test_settings_that_rows_do_not_depend_on_share_an_index(make_store):
    store = make_store(LENGTHS)
    for settings in ({"sequences": "packed"}, {"sequences": "packed", "tails": "drop", "seed": 1, "min_length": 8}):
        RowIndexes(store, config_of(**settings)).rows(0)
    assert len(list((store.path / "indexes").rglob("*.index"))) == 1


def test_a_table_that_counts_other_documents_is_refused(make_store):
    store = make_store(LENGTHS)
    store.shards = dataclasses.replace(store.shards, digits=store.shards.digits + 1)
    with pytest.raises(StoreError, match=r"documents of shard shard-0 must give \[.*\] rows by length, got \[.*\]"):
        RowIndexes(store, config_of()).rows(0)
