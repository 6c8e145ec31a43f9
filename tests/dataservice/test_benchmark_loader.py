from functools import partial
from itertools import islice

import numpy as np
import pytest

from benchmarks.loader import link_store, open_dyadlm, rows_config, time_stream, write_rows
from benchmarks.loader_peers import PEERS

LENGTH, TOKENS_PER_STEP = 8, 32


@pytest.fixture
def store(make_store):
    return make_store([[31, 3, 17], [40, 8]])


@pytest.fixture
def rows(store, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    write_rows(str(store.path), str(LENGTH), TOKENS_PER_STEP, folder)
    return folder


def test_peers_are_given_every_row_of_the_length_once(rows):
    found = np.load(rows / "rows.npy")
    # Documents of 31, 3, 17, 40 and 8 tokens have one input more, and so 4, 0, 2, 5 and 1 rows of 8.
    assert found.shape == (12, LENGTH + 1)
    assert len(np.unique(found[:, 0])) >= 8  # those that begin with <eod> are alike there


@pytest.mark.parametrize("name", ["memmap", "grain"])
def test_an_epoch_of_a_peer_is_every_row_once(rows, name):
    peer = PEERS[name]
    peer.write(rows)
    stream = peer.open(rows, TOKENS_PER_STEP // LENGTH, None)
    batches = list(islice(stream.batches, 3))
    stream.close()
    read = np.concatenate([np.hstack([inputs, targets[:, -1:]]) for inputs, targets in batches])
    assert sorted(map(tuple, read.tolist())) == sorted(map(tuple, np.load(rows / "rows.npy").tolist()))


def test_all_read_the_same_rows_and_resume(store, rows, tmp_path):
    folder = tmp_path / "view"
    folder.mkdir()
    config = rows_config(str(LENGTH), TOKENS_PER_STEP, epochs=1000, prefetch=0)
    ours = time_stream(partial(open_dyadlm, link_store(store.path, folder), config), 0.05, 12)
    peer = time_stream(partial(PEERS["memmap"].open, rows, TOKENS_PER_STEP // LENGTH), 0.05, 12)
    assert ours.resumes
    assert peer.resumes
    assert ours.checksum == peer.checksum is not None
    assert (folder / "indexes").exists()
