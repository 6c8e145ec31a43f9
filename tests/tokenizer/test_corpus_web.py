import gzip
import io
import json
import re
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokenizer.corpus import CorpusConfig, list_shards, read_shard, retrying, web
from tokenizer.errors import CorpusError, SourceError

ROWS = [{"text": f"text {n} é " * 50, "repo": f"r{n % 3}", "path": f"{n}.c"} for n in range(300)]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retrying, "RETRY_PAUSES", (0.001,) * 7)


class Handler(BaseHTTPRequestHandler):
    """Serves `server.files` with ranges and ETags, and does what `server.fault` says to a request first."""

    protocol_version = "HTTP/1.1"
    server: "Server"  # type: ignore[assignment]

    def do_GET(self):
        server = self.server
        number = server.requests[self.path] = server.requests[self.path] + 1
        fault = server.fault(number)
        data = server.files.get(self.path.partition("?")[0])
        if fault == "drop":
            return self.connection.close()
        if isinstance(fault, int) or data is None:
            return self.answer(404 if data is None else fault, b"", {})
        headers = {"ETag": server.etag}
        status, wanted = 200, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted and server.has_ranges:
            first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
            if first >= len(data):
                return self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            status, data = 206, data[first : last + 1]
        self.answer(status, data, headers, fault)

    def answer(self, status, data, headers, fault=None):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if fault == "truncate":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif fault == "hang":
            self.server.released.wait()
            self.close_connection = True
        elif fault == "trickle":
            for start in range(0, len(data), 997):
                self.wfile.write(data[start : start + 997])
                self.wfile.flush()
        else:
            self.wfile.write(data)

    def log_message(self, *arguments):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, files, fault, has_ranges):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {f"/data/{name}": data for name, data in files.items()}
        self.fault, self.has_ranges, self.etag = fault, has_ranges, '"one"'
        self.requests, self.released = Counter(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/data"

    def handle_error(self, request, client_address):
        pass  # connections that a test drops


@contextmanager
def serving(files, fault=lambda number: None, has_ranges=True):
    server = Server(files, fault, has_ranges)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def encode(name):
    if name.endswith(".parquet"):
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(ROWS), sink, row_group_size=100)
        return sink.getvalue()
    data = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    return gzip.compress(data) if name.endswith(".gz") else data


def read(url, **settings):
    config = CorpusConfig(paths=(url,), shard_bytes=1, **settings)
    return list(chain.from_iterable(read_shard(shard, config) for shard in list_shards(config)))


FORMATS = ["a.parquet", "a.jsonl", "a.jsonl.gz"]
TEXTS = [row["text"] for row in ROWS]


def every_other(fault):
    return lambda number: fault if number % 2 else None


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("fault", ["drop", "truncate", 503, 429, 500])
def test_faults_that_pass_cost_requests_and_no_byte(name, fault):
    with serving({name: encode(name)}, every_other(fault)) as server:
        assert [document.text for document in read(f"{server.url}/{name}")] == TEXTS
        assert sum(server.requests.values()) >= 3


@pytest.mark.parametrize("name", FORMATS)
def test_a_slow_answer_is_waited_for(name):
    with serving({name: encode(name)}, lambda number: "trickle") as server:
        assert [document.text for document in read(f"{server.url}/{name}")] == TEXTS


@pytest.mark.parametrize("name", FORMATS)
def test_a_server_without_ranges_sends_a_file_once_for_every_reader(name):
    with serving({name: encode(name)}, has_ranges=False) as server:
        assert [document.text for document in read(f"{server.url}/{name}")] == TEXTS


def test_a_document_of_its_own_takes_few_requests():
    text = "x" * 300_000
    with serving({"a.py": text.encode()}) as server:
        assert [document.text for document in read(f"{server.url}/a.py")] == [text]
        assert sum(server.requests.values()) == 3


class RefusedError(Exception):
    """As requests, huggingface_hub and others spell the status of an answer."""

    def __init__(self, status):
        self.response = type("Response", (), {"status_code": status})()


@pytest.mark.parametrize(("status", "passes"), [(401, False), (404, False), (429, True), (500, True), (503, True)])
def test_only_what_may_pass_is_asked_for_again(status, passes):
    calls = []

    def refuse():
        calls.append(1)
        raise RefusedError(status)

    with pytest.raises(SourceError, match=r"hf://a: |hf://a"):
        retrying.with_retries(refuse, "hf://a")
    assert len(calls) == (8 if passes else 1)


def test_row_groups_are_read_by_ranges():
    data = encode("a.parquet")
    with serving({"a.parquet": data}) as server:
        config = CorpusConfig(paths=(f"{server.url}/a.parquet",), shard_bytes=1)
        shards = list_shards(config)
        assert [len(list(read_shard(shard, config))) for shard in shards] == [100, 100, 100]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("fault", ["drop", "truncate", 503])
def test_a_server_that_stays_away_ends_reading_with_its_url_and_the_last_error(fault, on_error):
    with serving({"a.jsonl": encode("a.jsonl")}) as server:
        config = CorpusConfig(paths=(f"{server.url}/a.jsonl",), on_error=on_error)
        (shard,) = list_shards(config)
        server.requests.clear()
        server.fault = lambda number: fault
        with pytest.raises(
            SourceError, match=r"must answer, got .* in the last of 8 tries: http://.*a.jsonl"
        ) as caught:
            list(read_shard(shard, config))
        assert sum(server.requests.values()) == 8 and "\n" not in str(caught.value)


def test_a_server_that_never_answers_is_given_up_in_time(monkeypatch):
    monkeypatch.setattr(web, "TIMEOUT_SECONDS", 0.05)
    with serving({"a.jsonl": encode("a.jsonl")}, lambda number: "hang") as server:
        with pytest.raises(SourceError, match=r"must answer, got TimeoutError"):
            read(f"{server.url}/a.jsonl")
        server.released.set()


@pytest.mark.parametrize("status", [403, 404])
def test_what_is_forbidden_or_gone_is_not_asked_for_again(status):
    with serving({"a.jsonl": b""}, lambda number: status) as server:
        with pytest.raises(CorpusError, match="must be readable, got"):
            read(f"{server.url}/{'a' if status == 403 else 'b'}.jsonl")
        assert sum(server.requests.values()) == 1


@pytest.mark.parametrize("moment", [2, 3, 4])
def test_a_file_that_changes_under_way_is_no_input(moment):
    """From some request on the server has another file of the same size; however early, the end notices."""
    data = encode("a.parquet")
    with serving({"a.parquet": data}) as server:

        def change(number):
            if number == moment:
                server.etag = '"two"'

        server.fault = change
        with pytest.raises(SourceError, match=r"must stay as it is while it is read.*\"one\""):
            read(f"{server.url}/a.parquet")


def test_a_file_that_shrinks_under_way_is_said_at_once():
    with serving({"a.jsonl": encode("a.jsonl")}) as server:
        config = CorpusConfig(paths=(f"{server.url}/a.jsonl",))
        (shard,) = list_shards(config)
        server.files["/data/a.jsonl"] = b'{"text": "x"}\n'
        with pytest.raises(SourceError, match=r"must stay as it is while it is read, got 14 bytes"):
            list(read_shard(shard, config))


@pytest.mark.filterwarnings("ignore")  # fsspec leaves its session to the collector of garbage
def test_pages_of_links_are_lists_of_files():
    pytest.importorskip("aiohttp")
    names = ["b.jsonl", "a.jsonl", "c.txt"]
    page = "".join(f'<a href="{name}">{name}</a>' for name in names).encode()
    with serving({**{name: f'{{"text": "{name}"}}\n'.encode() for name in names}, "": page}) as server:
        assert [document.text for document in read(f"{server.url}/*.jsonl")] == ["a.jsonl", "b.jsonl"]


def test_empty_files_and_queries_are_files(tmp_path):
    with serving({"a.jsonl": b"", "b.jsonl": b'{"text": "x"}\n'}) as server:
        config = CorpusConfig(paths=(f"{server.url}/a.jsonl", f"{server.url}/b.jsonl?key=1/2"))
        shards = list_shards(config)
        assert [shard.name for shard in shards] == ["a", "b"]
        assert [[d.text for d in read_shard(shard, config)] for shard in shards] == [[], ["x"]]
