"""What users of grain's iterators trip over: threads that stay, processes that do not end, states that run ahead."""

import os
import pickle
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from dataservice import DataConfig, DataError, batches

ROOT = Path(__file__).parents[2]
LENGTHS = [[3, 40, 1, 77, 9, 30], [5, 2, 61, 18, 1, 1, 90], [12, 7, 7, 25, 50, 4]]


def config_of(**settings) -> DataConfig:
    return DataConfig(**{"min_length": 4, "max_length": 32, "tokens_per_step": 32, "prefetch": 2, **settings})


@pytest.mark.parametrize("num_taken", [0, 3, 1000])
def test_no_thread_outlives_a_closed_iterator(make_store, num_taken):
    store, before = make_store(LENGTHS), set(threading.enumerate())
    iterator = iter(batches(store, config_of()))
    assert len(list(islice(iterator, num_taken))) == min(num_taken, len(list(batches(store, config_of(prefetch=0)))))
    iterator.close()
    iterator.close()
    assert set(threading.enumerate()) <= before


DROP = """
import pickle, sys
from dataservice import Store, batches
path, config, ends_in = pickle.load(sys.stdin.buffer)
kept = iter(batches(Store.open(path), config))
print(next(kept)["step"])
for batch in batches(Store.open(path), config):
    if ends_in == "an error":
        raise RuntimeError("of the user")
    break
"""


@pytest.mark.slow
@pytest.mark.parametrize(("ends_in", "status"), [("time", 0), pytest.param("an error", 1, marks=pytest.mark.slow)])
def test_a_process_that_forgets_to_close_its_iterators_ends(make_store, ends_in, status):
    request = pickle.dumps((make_store(LENGTHS).path, config_of(epochs=1000), ends_in))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", DROP], input=request, env=environment, capture_output=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (status, b"0\n"), done.stderr
    assert (b"of the user" in done.stderr) == bool(status)


def test_a_state_is_that_of_the_batches_taken_however_many_are_made_ahead(make_store):
    store = make_store(LENGTHS)
    states, rest = [], []
    for prefetch in (0, 1, 7):
        iterator = iter(batches(store, config_of(prefetch=prefetch, workers=prefetch)))
        list(islice(iterator, 5))
        states.append(pickle.loads(pickle.dumps(iterator.get_state())))
        rest.append(list(iterator))
        iterator.close()
    assert states[0]["step"] == 5 and states[1] == states[2] == states[0]
    for saved in states:
        resumed = iter(batches(store, config_of(prefetch=3)))
        resumed.set_state(saved)
        np.testing.assert_equal(list(resumed), rest[0])
        resumed.close()
    np.testing.assert_equal(rest[1:], [rest[0]] * 2)


def test_two_iterators_of_one_dataset_do_not_disturb_each_other(make_store):
    dataset = batches(make_store(LENGTHS), config_of())
    whole, first, second = list(dataset), iter(dataset), iter(dataset)
    np.testing.assert_equal([next(first), next(first), next(second), next(first)], [*whole[:2], whole[0], whole[2]])
    for iterator in (first, second):
        iterator.close()


@pytest.mark.slow
def test_iterators_that_live_when_python_ends_say_nothing(make_store):
    store = make_store(LENGTHS)
    program = (
        "import pickle, sys; from dataservice import Store, batches\n"
        "path, config = pickle.load(sys.stdin.buffer); kept = iter(batches(Store.open(path), config)); next(kept)\n"
        "ended = iter(batches(Store.open(path), config)); list(ended)\n"
    )
    command = [sys.executable, "-c", program]
    given = pickle.dumps((store.path, config_of()))
    output = subprocess.run(command, input=given, capture_output=True, check=True, cwd=ROOT)
    assert output.stderr == b""


@pytest.mark.parametrize("name", ["start_step", "num_steps"])
@pytest.mark.parametrize("value", [-1, 1.5, "2"])
def test_what_is_no_number_of_steps_is_refused(make_store, name, value):
    with pytest.raises(DataError, match=f"{name} must be a whole number of steps, at least 0, got {value!r}"):
        batches(make_store(LENGTHS), config_of(), **{name: value})
