import json
import signal
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import flight

from dataservice import (
    DataConfig,
    DataError,
    IngestError,
    Store,
    StoreError,
    batches,
    held_out_batches,
    open_data,
    prepare,
    verify,
)
from dataservice.__main__ import main
from dataservice.loader import BatchDataset
from dataservice.locating import open_store, split_servers
from dataservice.service.protocol import FileRequest, TokenRequest, parse_request
from dataservice.service.remote_store import ServedStore
from dataservice.service.settings import ServerSettings
from dataservice.statistics import measure
from dataservice.store.demand import Demand
from tokenizer import Tokenizer
from tokenizer.corpus import CorpusConfig

LENGTHS = [[3, 40, 1, 77, 9, 30], [], [5, 2, 61, 18, 1, 1, 90], [33], [12, 7, 7, 25, 50, 4]]
HELD_OUT = [[3, 40, 1], [], [77, 9], [], [30]]


def config_of(**settings) -> DataConfig:
    defaults = {"min_length": 4, "max_length": 32, "tokens_per_step": 64, "curriculum": "grow-p2", "cycles": 2}
    return DataConfig(**{**defaults, **settings})


@pytest.mark.parametrize("first_token", [1, 70_000])
@pytest.mark.parametrize("settings", [{}, {"window_shards": 2, "epochs": 2, "prefetch": 0}, {"tails": "drop"}])
def test_a_served_store_gives_the_bits_of_the_local_one(make_store, serve, connect, first_token, settings):
    store, config = make_store(LENGTHS, held_out=HELD_OUT, first_token=first_token), config_of(**settings)
    served = connect(serve(store).url)
    assert served.dtype == store.dtype and served.prefix_digest(5) == store.prefix_digest(5)
    theirs = iter(batches(served, config))
    np.testing.assert_equal(list(theirs), list(BatchDataset(store, config)))
    theirs.close()
    ours = held_out_batches(store, config, num_batches_per_bucket=9)
    assert ours
    np.testing.assert_equal(held_out_batches(served, config, num_batches_per_bucket=9), ours)


def test_several_batches_of_a_length_come_in_one_call(make_store, serve, connect, monkeypatch):
    served, calls, read = connect(serve(make_store(LENGTHS)).url), [], ServedStore._read
    monkeypatch.setattr(ServedStore, "_read", lambda *arguments: calls.append(1) or read(*arguments))
    num_batches = len(list(BatchDataset(served, config_of(prefetch=0))))
    assert 0 < len(calls) < num_batches


def test_a_growing_store_is_followed_through_its_server(make_store, serve, connect, tmp_path):
    path = tmp_path / "growing"
    store = make_store(LENGTHS[:2], path=path, planned_shards=5)
    served = connect(serve(store).url)
    assert not served.is_complete and "no process that prepares it" in str(served.writer_fault())
    config = config_of(window_shards=2)
    theirs = iter(BatchDataset(served, config))
    first = list(islice(theirs, 1))
    make_store(LENGTHS, path=path)
    whole = list(BatchDataset(make_store(LENGTHS), config))
    np.testing.assert_equal(first + list(theirs), whole)
    assert served.is_complete


def test_who_prepares_a_served_store_is_told_what_is_needed(make_store, serve, connect, tmp_path):
    store = make_store(LENGTHS[:2], path=tmp_path / "growing", planned_shards=5)
    server = serve(store)
    served = connect(server.url)
    demand = Demand(store.path, window_shards=1, ahead_windows=1)
    assert [demand.wants(shard) for shard in range(5)] == [True, True, False, False, False]
    with pytest.raises(IngestError, match="no process that prepares it"):
        served.wait_for_shards(3)
    assert [demand.wants(shard) for shard in range(5)] == [True, True, True, True, False]
    with flight.FlightClient(server.url) as client:
        for wrong in (b"", b"-1", b"1\n9", b"9" * 99):
            with pytest.raises(pa.ArrowInvalid, match="number of shards"):
                list(client.do_action(flight.Action("demand", wrong)))


def test_a_served_store_is_verified_and_counted_as_a_local_one(make_store, serve, connect):
    store = make_store(LENGTHS, held_out=HELD_OUT)
    served = connect(serve(store).url)
    assert measure(served, config_of()) == measure(store, config_of())
    assert verify(served) == []
    assert served.sources(0).equals(store.sources(0))


def test_a_store_that_is_served_can_be_served_on(make_store, serve, connect):
    store = make_store(LENGTHS, held_out=HELD_OUT)
    near = connect(serve(store).url)
    far = connect(serve(near).url)
    np.testing.assert_equal(list(BatchDataset(far, config_of())), list(BatchDataset(store, config_of())))
    assert verify(far) == []


def test_large_batches_come_in_several_parts(make_store, serve, connect, monkeypatch):
    monkeypatch.setattr("dataservice.service.remote_store.PART_BYTES", 200)
    monkeypatch.setattr("dataservice.service.remote_store.PART_ROWS", 7)
    monkeypatch.setattr("dataservice.service.server.PIECE_BYTES", 64)
    store = make_store(LENGTHS)
    server = serve(store)
    served = connect(server.url)
    rng = np.random.default_rng(0)
    shards, starts = rng.choice([0, 2, 4], 50), rng.integers(0, 50, 50)
    before = server.metrics.report()["requests"]
    np.testing.assert_array_equal(served.read_rows(shards, starts, 33), store.read_rows(shards, starts, 33))
    assert server.metrics.report()["requests"] - before == 17  # 3 rows of 66 bytes each
    lengths = rng.integers(0, 50, 50)
    np.testing.assert_array_equal(
        served.read_pieces(shards, starts, lengths), store.read_pieces(shards, starts, lengths)
    )
    none = np.zeros(0, np.int64)
    assert served.read_rows(none, none, 5).shape == (0, 5) and len(served.read_pieces(none, none, none)) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), st.lists(st.tuples(st.integers(0, 9), st.integers(-(2**62), 2**62), st.integers(0, 99))))
def test_requests_are_what_was_asked(held_out, rows):
    shards, starts, lengths = np.array(rows, np.int64).reshape(-1, 3).T
    for given_lengths in (lengths, 7):
        request = TokenRequest(held_out, 10, "ab" * 32, shards, starts, given_lengths)
        parsed = parse_request(request.to_bytes())
        assert isinstance(parsed, TokenRequest)
        np.testing.assert_equal(parsed._asdict(), request._asdict())
    assert parse_request(FileRequest("a/ü").to_bytes()) == FileRequest("a/ü")


@given(st.binary(max_size=60) | st.dictionaries(st.text(max_size=9), st.integers() | st.text()).map(json.dumps))
def test_other_bytes_are_no_request(data):
    valid = TokenRequest(False, 1, "", np.zeros(2, np.int64), np.zeros(2, np.int64), 3).to_bytes()
    data = data if isinstance(data, bytes) else data.encode()
    for wrong in (data, valid + data if data else valid[:-1], valid[:-9], valid.replace(b'"rows": 2', b'"rows": -1')):
        with pytest.raises(ValueError, match="must be"):
            parse_request(wrong)


def test_no_file_but_the_stores_own_can_be_asked_for(make_store, serve, connect, tmp_path):
    store = make_store(LENGTHS)
    (tmp_path / "secret").write_text("secret")
    (store.path / "indexes").mkdir(exist_ok=True)
    (store.path / "indexes" / "mine").write_text("no part of the store")
    served = connect(serve(store).url)
    for name in (
        *("../secret", "shards/../../secret", str(tmp_path / "secret"), "shards/shard-0/../../../secret", "lock"),
        *("indexes/mine", "tokenizer/../manifest.json", "shards/shard-0", "shards", "", "held_out/manifest.json"),
    ):
        with pytest.raises(StoreError, match="file must be one of the store's"):
            served.origin.remote.fetch(name, b"".join)
    assert json.loads(served.origin.remote.fetch("manifest.json", b"".join))["shards"] == 5


def test_a_server_tells_what_it_did(make_store, serve, connect):
    store = make_store(LENGTHS)
    server = serve(store)
    served = connect(server.url)
    assert (server.metrics.take_line() or "").startswith("2 requests, 0 errors, 0 tokens/s")
    served.read_rows(0, np.array([1, 2]), 9)
    with pytest.raises(StoreError):
        served.read_rows(0, np.array([-1]), 9)
    with flight.FlightClient(server.url) as client:
        (result,) = client.do_action("metrics")
        found = json.loads(result.body.to_pybytes())
        assert (found["requests"], found["errors"], found["tokens"], found["shards"]) == (5, 1, 18, 5)
        (result,) = client.do_action("health")
        assert json.loads(result.body.to_pybytes())["status"] == "ok"
        assert {action.type for action in client.list_actions()} == {"demand", "metrics", "health", "writer"}
    assert "1 errors" in (server.metrics.take_line() or "") and server.metrics.take_line() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_a_signal_and_ends_cleanly(make_store, start_process, tmp_path, number):
    store = make_store(LENGTHS)
    process, url = start_process(store.path)
    served = open_store(DataConfig(store=url, cache=str(tmp_path / "cache")))
    np.testing.assert_array_equal(served.read_rows(0, np.array([1, 5]), 9), store.read_rows(0, np.array([1, 5]), 9))
    process.send_signal(number)
    output, errors = process.communicate()
    assert process.returncode == 0 and "ended after 3 requests" in output and "Traceback" not in errors


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("grpc://", "HOST:PORT"),
        ("grpc://one", "HOST:PORT"),
        ("grpc://one:1/path", "HOST:PORT"),
        ("grpc+tls://one:1,,two:2", "HOST:PORT"),
    ],
)
def test_wrong_servers_are_refused_in_one_line(place, fault):
    with pytest.raises(DataError, match=fault) as caught:
        split_servers(place)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [{"port": -1}, {"tls_key": "a"}, {"max_request_bytes": 3}, {"log_every": 0}, {"max_response_bytes": 0}]
)
def test_wrong_settings_of_a_server_are_refused(wrong):
    with pytest.raises(DataError, match=next(iter(wrong))):
        ServerSettings(**wrong)


def test_documents_are_trained_on_and_looked_at_through_a_server(serve, tmp_path, capsys):
    tokenizer = Tokenizer(np.array([[101, 32]]), ("<eot>", "<eod>"))
    lines = [json.dumps({"text": f"text {row} " * (row % 9 + 1)}) for row in range(40)]
    (tmp_path / "part.jsonl").write_text("\n".join(lines))
    corpus = CorpusConfig(paths=(str(tmp_path / "part.jsonl"),), held_out_fraction=0.2, held_out_by="document")
    prepare(corpus, tokenizer, tmp_path / "store", workers=1)
    url = serve(Store.open(tmp_path / "store")).url
    config = config_of(store=url, cache=str(tmp_path / "cache"))
    served = open_data(corpus, config, tokenizer)
    assert served.tokenizer().fingerprint == tokenizer.fingerprint
    local = BatchDataset(Store.open(tmp_path / "store"), config)
    np.testing.assert_equal(list(BatchDataset(served, config)), list(local))
    other = Tokenizer(np.array([[97, 98]]), ("<eot>", "<eod>"))
    with pytest.raises(StoreError, match=f"{other.fingerprint}.*{tokenizer.fingerprint}"):
        open_data(corpus, config, other)
    for command in (["verify"], ["stats", "--min-length", "4"], ["show", "--min-length", "4", "--step", "0"]):
        outputs = []
        for place in (url, str(tmp_path / "store")):
            assert main([command[0], place, *command[1:], "--cache", str(tmp_path / "other")]) == 0
            outputs.append(capsys.readouterr().out.replace(place, ""))
        assert outputs[0] == outputs[1] != ""
