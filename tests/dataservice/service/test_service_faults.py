import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from pyarrow import flight

from dataservice import DataConfig, DataError, StoreError
from dataservice.loader import BatchDataset, batches
from dataservice.service.access import Access, read_token
from dataservice.service.server import StoreServer
from dataservice.store.retrying import Patience

LENGTHS = [[3, 40, 1, 77, 9, 30], [], [5, 2, 61, 18, 1, 1, 90], [33], [12, 7, 7, 25, 50, 4]]
PATIENT = Patience(tries=60, first_pause=0.02, longest_pause=0.5, timeout=20.0)
ROWS = (np.array([0, 4]), np.array([1, 5]), 9)


def config_of(**settings) -> DataConfig:
    return DataConfig(**{"min_length": 4, "max_length": 32, "tokens_per_step": 32, "cycles": 2, **settings})


def one_line(caught: pytest.ExceptionInfo) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_when_a_server_is_killed_in_the_middle_the_other_one_goes_on(make_store, start_process, connect):
    store, config = make_store(LENGTHS), config_of()
    first, second = start_process(store.path), start_process(store.path)
    served = connect(first.url, second.url)
    theirs = iter(BatchDataset(served, config))
    seen = list(islice(theirs, 3))
    first.process.kill()
    np.testing.assert_equal(seen + list(theirs), list(BatchDataset(store, config)))


def test_a_restarted_server_goes_on_where_it_was_and_needs_nothing(make_store, start_process, connect):
    store, config = make_store(LENGTHS), config_of()
    server = start_process(store.path)
    theirs = iter(BatchDataset(connect(server.url, patience=PATIENT), config))
    seen = list(islice(theirs, 3))
    server.process.kill()
    server.process.wait()
    port = server.url.rpartition(":")[2]
    starter = threading.Thread(target=start_process, args=(store.path, "--port", port))
    starter.start()
    seen += list(theirs)
    starter.join()
    np.testing.assert_equal(seen, list(BatchDataset(store, config)))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part_bytes", [16, 1 << 20])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_stop_or_a_close_ends_the_batches_while_all_servers_are_away(
    make_store, serve, connect, monkeypatch, prefetch, part_bytes
):
    # Parts that are asked for at the same time, by threads of their own.
    monkeypatch.setattr("dataservice.service.remote_store.PART_BYTES", part_bytes)
    store, config = make_store(LENGTHS), config_of(prefetch=prefetch)
    for_ever = Patience(tries=9, first_pause=3600.0, longest_pause=3600.0, timeout=20.0)
    for ends_by_close in (False, True):
        server, stopped = serve(store), threading.Event()
        iterator = iter(batches(connect(server.url, patience=for_ever), config, is_stopped=stopped.is_set))
        seen = [next(iterator)]
        server.shutdown()
        ends = iterator.close if ends_by_close else stopped.set
        waiting = threading.Timer(0.3, ends)
        waiting.start()
        if not ends_by_close or not prefetch:
            seen += list(iterator)
        waiting.join()
        iterator.close()
        assert len(seen) < len(list(BatchDataset(store, config)))


@pytest.mark.slow
def test_kills_at_50_moments_change_no_bit(make_store, start_process, connect):
    store, config = make_store(LENGTHS), config_of(epochs=300, window_shards=2)
    whole = list(BatchDataset(store, config))
    servers = [start_process(store.path) for _ in range(2)]
    ports = [server.url.rpartition(":")[2] for server in servers]
    served = connect(*(server.url for server in servers), patience=PATIENT)
    ended = threading.Event()

    def kill() -> None:
        generator = np.random.default_rng(0)
        for number in range(50):
            time.sleep(generator.uniform(0, 0.1))
            victim = number % 2
            servers[victim].process.kill()
            servers[victim].process.wait()
            servers[victim] = start_process(store.path, "--port", ports[victim])
        ended.set()

    killer = threading.Thread(target=kill)
    killer.start()
    rounds = 0
    while not ended.is_set():
        theirs = iter(batches(served, config))
        for ours in whole:
            np.testing.assert_equal(next(theirs), ours)
            if ended.is_set():
                break
        theirs.close()
        rounds += 1
    killer.join()
    assert rounds


def test_silent_servers_end_in_one_line_that_names_them_and_tls(make_store, serve, connect):
    server = serve(make_store(LENGTHS))
    served = connect(server.url, "grpc://127.0.0.1:1")
    server.shutdown()
    with pytest.raises(StoreError, match=r"5 tries.*127.0.0.1:1.*TLS") as caught:
        served.read_rows(*ROWS)
    assert server.url in one_line(caught)


class SlowServer(StoreServer):
    """Does not answer the first requests for tokens in time."""

    num_slow = 2

    def read_tokens(self, store, request):
        if self.num_slow:
            self.num_slow -= 1
            time.sleep(1.5)
        return super().read_tokens(store, request)


def test_a_server_that_hangs_is_asked_again_after_the_timeout(make_store, serve, connect):
    store = make_store(LENGTHS)
    server = serve(store, kind=SlowServer)
    impatient = Patience(tries=20, first_pause=0.01, longest_pause=0.01, timeout=1.0)
    served = connect(server.url, patience=impatient)
    np.testing.assert_array_equal(served.read_rows(*ROWS), store.read_rows(*ROWS))
    assert server.num_slow == 0


class HangingServer(StoreServer):
    """Answers no request for tokens from when `released` is cleared until it is set."""

    def __init__(self, *arguments, **options):
        self.released = threading.Event()
        self.released.set()
        super().__init__(*arguments, **options)

    def read_tokens(self, store, request):
        self.released.wait()
        return super().read_tokens(store, request)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part_bytes", [16, 1 << 20])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_stop_ends_the_wait_for_a_server_that_hangs(make_store, serve, connect, monkeypatch, prefetch, part_bytes):
    # Parts that are asked for at the same time, by threads of their own.
    monkeypatch.setattr("dataservice.service.remote_store.PART_BYTES", part_bytes)
    server, stopped = serve(make_store(LENGTHS), kind=HangingServer), threading.Event()
    for_ever = Patience(tries=9, timeout=3600.0)
    served, config = connect(server.url, patience=for_ever), config_of(prefetch=prefetch)
    iterator = iter(batches(served, config, is_stopped=stopped.is_set))
    seen = [next(iterator)]
    server.released.clear()
    try:
        waiting = threading.Timer(0.3, stopped.set)
        waiting.start()
        seen += list(iterator)
        waiting.join()
        iterator.close()
        assert len(seen) < len(list(BatchDataset(make_store(LENGTHS), config)))
    finally:
        server.released.set()


class CorruptingServer(StoreServer):
    """Flips a bit of the next `num_wrong` pieces, and sends the checksums of the right ones, or (lies) of the wrong."""

    num_wrong = 0
    lies = False

    def cut(self, values, schema):
        for batch, checksum in super().cut(values, schema):
            if not self.num_wrong:
                yield batch, checksum
                continue
            self.num_wrong -= 1
            wrong = batch.column(0).to_numpy().copy()
            wrong[len(wrong) // 2] ^= 1
            ((batch, true_checksum),) = super().cut(wrong, schema)
            yield batch, true_checksum if self.lies else checksum


@pytest.mark.parametrize("num_wrong", [1, 3])
def test_corrupted_answers_are_found_and_asked_for_again(make_store, serve, connect, num_wrong):
    store, config = make_store(LENGTHS), config_of()
    server = serve(store, kind=CorruptingServer)
    served = connect(server.url)
    theirs = iter(BatchDataset(served, config))
    seen = list(islice(theirs, 2))
    server.num_wrong = num_wrong
    np.testing.assert_equal(seen + list(theirs), list(BatchDataset(store, config)))
    assert server.num_wrong == 0


def test_answers_that_stay_corrupted_are_refused(make_store, serve, connect):
    server = serve(make_store(LENGTHS), kind=CorruptingServer)
    served = connect(server.url)
    server.num_wrong = 10**9
    with pytest.raises(StoreError, match="checksum") as caught:
        served.read_rows(*ROWS)
    assert server.url in one_line(caught)


@pytest.mark.parametrize("lies", [False, True])
def test_files_that_arrive_damaged_are_fetched_again_and_refused_in_the_end(make_store, serve, connect, lies):
    store = make_store(LENGTHS)
    server = serve(store, kind=CorruptingServer)
    server.lies = lies
    served = connect(server.url)
    server.num_wrong = 2
    np.testing.assert_array_equal(served.documents(0), store.documents(0))
    assert server.num_wrong == 0
    server.num_wrong = 10**9
    with pytest.raises(StoreError, match="5 tries"):
        served.documents(2)
    assert not list(served.path.rglob("*.partial")) and not (served.path / "shards/shard-2/documents.npy").exists()
    with pytest.raises(StoreError, match="5 tries"):
        connect(server.url)


def test_a_server_whose_shard_is_damaged_serves_none_of_it_and_another_one_does(make_store, serve, connect):
    store, damaged = make_store(LENGTHS), make_store(LENGTHS)
    path = damaged.path / "shards/shard-4/tokens.npy"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    first, second = serve(damaged), serve(store)
    served = connect(first.url, second.url)
    np.testing.assert_array_equal(served.read_rows(*ROWS), store.read_rows(*ROWS))
    assert second.metrics.report()["tokens"] == 18 and not first.metrics.report()["tokens"]
    with pytest.raises(StoreError, match=r"tokens.npy must hold .* got damaged bytes"):
        connect(first.url).read_rows(*ROWS)


def test_a_server_with_another_store_refuses(make_store, serve, connect, start_process):
    store, other = make_store(LENGTHS), make_store(LENGTHS, first_token=3)
    first = start_process(store.path)
    second = serve(other)
    served = connect(first.url, second.url)
    expected = store.read_rows(*ROWS)
    np.testing.assert_array_equal(served.read_rows(*ROWS), expected)
    first.process.kill()
    first.process.wait()
    with pytest.raises(StoreError, match=rf"{second.url}.*store must begin with the 5 shards") as caught:
        served.read_rows(*ROWS)
    one_line(caught)
    with pytest.raises(StoreError, match=r"must keep its first 5 shards"):
        served.refresh()


def test_a_server_that_is_behind_is_passed_over_and_the_mirror_stays_ahead(make_store, serve, connect, tmp_path):
    store, behind = make_store(LENGTHS), make_store(LENGTHS[:2], planned_shards=5)
    first, second = serve(store), serve(behind)
    served = connect(second.url, first.url, mirror="one")
    assert len(served.shards) == 2
    assert len(connect(first.url, mirror="one").shards) == 5
    served.refresh()
    assert len(served.shards) == 5
    np.testing.assert_array_equal(served.read_rows(*ROWS), store.read_rows(*ROWS))
    assert second.metrics.report()["tokens"] == 0


@pytest.mark.parametrize("token", [None, "wrong", "secre", "secret2"])
def test_every_call_needs_the_token_which_is_never_said(make_store, serve, connect, token, capfd):
    server = serve(make_store(LENGTHS), token="secret")
    with pytest.raises(StoreError, match=r"token .*DYADLM_TOKEN") as caught:
        connect(server.url, token=token)
    assert token is None or token not in one_line(caught)
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    options = flight.FlightCallOptions(headers=headers)
    with flight.FlightClient(server.url) as client:
        for call in (
            lambda: list(client.do_action("metrics", options)),
            lambda: client.do_get(flight.Ticket(b""), options).read_all(),
            lambda: client.list_actions(options),
            lambda: list(client.list_flights(options=options)),
        ):
            with pytest.raises(flight.FlightUnauthenticatedError):
                call()
    assert connect(server.url, token="secret").shards.names[0] == "shard-0"
    assert "secret" not in capfd.readouterr().err + repr(Access(token="secret"))


def test_a_token_comes_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("DYADLM_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("DYADLM_TOKEN", "one")
    (tmp_path / "token").write_text("two\n")
    assert (read_token(None), read_token(str(tmp_path / "token"))) == ("one", "two")
    for wrong in ("", "a b", "\u00fc", "a\nb"):
        (tmp_path / "token").write_text(wrong)
        with pytest.raises(DataError, match="one word"):
            read_token(str(tmp_path / "token"))
    with pytest.raises(DataError, match="must be a file"):
        read_token(str(tmp_path / "none"))


def test_requests_and_answers_over_the_limits_are_refused_with_the_limit(make_store, serve, connect):
    server = serve(make_store(LENGTHS), max_request_bytes=1024, max_response_bytes=2048)
    served = connect(server.url)
    zeros = np.zeros(200, np.int64)
    with pytest.raises(StoreError, match="request must be of at most 1024 bytes"):
        served.read_rows(0, zeros, 1)
    with pytest.raises(StoreError, match="response must be of at most 2048 bytes, got 2400") as caught:
        served.read_rows(0, zeros[:12], 100)
    one_line(caught)
    assert len(served.read_rows(0, zeros[:9], 100)) == 9


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Files of a certificate for localhost that vouches for itself, and of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    folder: Path = tmp_path_factory.mktemp("tls")
    files = str(folder / "certificate.pem"), str(folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", files[0], "-keyout", files[1]]
    subprocess.run(command, check=True, capture_output=True)
    yield files


def test_tls_gives_the_same_rows_and_needs_both_sides(make_store, serve, connect, certificate):
    store = make_store(LENGTHS)
    server = serve(store, host="localhost", tls_certificate=certificate[0], tls_key=certificate[1], token="secret")
    trusted = Path(certificate[0]).read_bytes()
    assert server.url.startswith("grpc+tls://")
    served = connect(server.url, root_certificates=trusted, token="secret")
    np.testing.assert_array_equal(served.read_rows(*ROWS), store.read_rows(*ROWS))
    plain = serve(store, host="localhost")
    for url, roots in (
        (server.url.replace("+tls", ""), None),
        (server.url, None),
        (plain.url.replace("grpc", "grpc+tls"), trusted),
    ):
        with pytest.raises(StoreError, match=r"mind TLS") as caught:
            connect(url, root_certificates=roots, token="secret")
        one_line(caught)


def test_a_port_in_use_and_certificates_that_are_none_are_refused(start_process, make_store, tmp_path):
    store = make_store(LENGTHS)
    (tmp_path / "no.pem").write_text("no certificate")
    for options, fault in (
        (("--tls-certificate", str(tmp_path / "no.pem"), "--tls-key", str(tmp_path / "no.pem")), "fit tls_key"),
        (("--tls-certificate", str(tmp_path / "none"), "--tls-key", str(tmp_path / "none")), "tls_certificate must"),
        (("--host", "host.invalid"), "host.invalid"),
    ):
        process, said = start_process(store.path, *options)
        assert process.wait() == 2
        assert fault.replace("_", "-") in said.replace("_", "-") and said.count("\n") == 1


def test_the_token_file_of_the_command_is_asked_for_and_never_printed(make_store, start_process, connect, tmp_path):
    store = make_store(LENGTHS)
    (tmp_path / "token").write_text("a-secret-word")
    process, url = start_process(store.path, "--token-file", str(tmp_path / "token"), "--log-every", "0.05")
    with pytest.raises(StoreError, match="token"):
        connect(url)
    np.testing.assert_array_equal(connect(url, token="a-secret-word").read_rows(*ROWS), store.read_rows(*ROWS))
    process.terminate()
    output, errors = process.communicate()
    assert "a-secret-word" not in output + errors
    assert "1 errors" in errors and "can be read on the network" in errors
