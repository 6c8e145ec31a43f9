import http.server
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import fsspec
import numpy as np
import pytest

from dataservice import DataConfig, Store, StoreError, batches, held_out_batches, verify
from dataservice.__main__ import main
from dataservice.loader import BatchDataset
from dataservice.locating import describe_small_cache, open_store
from dataservice.service.server import StoreServer
from dataservice.service.settings import ServerSettings
from dataservice.statistics import measure
from dataservice.store.files import FileSeal, digest_bytes
from dataservice.store.mirror import Mirror
from dataservice.store.mirrored import MirroredStore
from dataservice.store.retrying import Patience
from dataservice.store.urls import UrlFiles

LENGTHS = [[3, 40, 1, 77, 9, 30], [], [5, 2, 61, 18, 1, 1, 90], [33], [12, 7, 7, 25, 50, 4]]
HELD_OUT = [[3, 40, 1], [], [77, 9], [], [30]]
QUICK = Patience(tries=5, first_pause=0.01, longest_pause=0.02, timeout=1.0)


def config_of(**settings) -> DataConfig:
    return DataConfig(**{"min_length": 4, "max_length": 32, "tokens_per_step": 32, "cycles": 2, **settings})


@pytest.fixture
def in_memory() -> Iterator[Callable[[Store, str], str]]:
    """Copies a store to a URL of fsspec's file system in memory."""
    memory = fsspec.filesystem("memory")

    def copy(store: Store, name: str) -> str:
        for path in store.path.rglob("*"):
            if path.is_file():
                memory.pipe(f"/{name}/{path.relative_to(store.path).as_posix()}", path.read_bytes())
        return f"memory://{name}"

    yield copy
    memory.store.clear()


class FaultyHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files of a folder; the next requests meet the faults in the list, of which each server has its own."""

    def __init__(self, faults: list[str], *arguments, **options) -> None:
        self.faults = faults
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "error":
            self.send_error(503)
        elif fault == "hang":
            time.sleep(1.5)
        elif fault in ("cut", "slow", "flip"):
            data = Path(self.translate_path(self.path)).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            pieces = {"cut": [data[:-1]], "flip": [data[:-1] + bytes([data[-1] ^ 1])], "slow": [data[:9], data[9:]]}
            for piece in pieces[fault]:
                self.wfile.write(piece)
                self.wfile.flush()
                time.sleep(0.2)
        elif fault != "drop":
            super().do_GET()

    def log_message(self, format: str, *arguments) -> None:
        pass


@pytest.fixture
def serve_files() -> Iterator[Callable[[Path], tuple[str, list[str]]]]:
    """Serves a folder by HTTP: (URL, list of the faults to come)."""
    servers = []

    def start(folder: Path) -> tuple[str, list[str]]:
        faults: list[str] = []
        handler = partial(FaultyHandler, faults, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return f"http://127.0.0.1:{server.server_address[1]}", faults

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def open_quickly(url: str, tmp_path: Path, limit: int = 1 << 30) -> Store:
    root = tmp_path / "cache" / "mirrors"
    folder = root / digest_bytes(url.encode())[:32]
    return MirroredStore.open(folder, origin=Mirror(UrlFiles(url, QUICK), folder, root=root, limit=limit))


@pytest.mark.parametrize("cache_bytes", [1 << 30, 700, 1])
@pytest.mark.parametrize("window_shards", [0, 2])
def test_a_store_in_memory_gives_the_bits_of_the_local_one(make_store, in_memory, tmp_path, cache_bytes, window_shards):
    store = make_store(LENGTHS, held_out=HELD_OUT)
    url = in_memory(store, "store")
    config = config_of(store=url, cache=str(tmp_path / "cache"), cache_bytes=cache_bytes, window_shards=window_shards)
    there = open_store(config)
    theirs = iter(batches(there, config))
    np.testing.assert_equal(list(theirs), list(BatchDataset(store, config)))
    theirs.close()
    np.testing.assert_equal(
        held_out_batches(there, config, num_batches_per_bucket=2),
        held_out_batches(store, config, num_batches_per_bucket=2),
    )
    assert measure(there, config) == measure(store, config)
    assert verify(there) == []


def test_a_growing_store_in_memory_is_followed(make_store, in_memory, tmp_path):
    path = tmp_path / "growing"
    url = in_memory(make_store(LENGTHS[:2], path=path, planned_shards=5), "growing")
    config = config_of(window_shards=2)
    theirs = iter(BatchDataset(open_quickly(url, tmp_path), config))
    seen = list(islice(theirs, 1))
    in_memory(make_store(LENGTHS, path=path), "growing")
    np.testing.assert_equal(seen + list(theirs), list(BatchDataset(make_store(LENGTHS), config)))


@pytest.mark.parametrize("fault", ["drop", "error", "cut", "slow", "flip", "hang"])
def test_a_server_that_drops_delays_or_damages_is_asked_again(make_store, serve_files, tmp_path, fault):
    store, config = make_store(LENGTHS), config_of()
    url, faults = serve_files(store.path)
    faults += [fault, fault]
    there = open_quickly(url, tmp_path)
    theirs = iter(BatchDataset(there, config))
    faults += [fault] * 3
    np.testing.assert_equal(list(theirs), list(BatchDataset(store, config)))
    assert not faults and not list(there.path.rglob("*.partial"))


@pytest.mark.parametrize("fault", ["drop", "error", "cut", "flip"])
def test_a_server_that_stays_faulty_ends_the_run_with_a_line(make_store, serve_files, tmp_path, fault):
    url, faults = serve_files(make_store(LENGTHS).path)
    there = open_quickly(url, tmp_path)
    faults += [fault] * 1000
    with pytest.raises(StoreError, match=rf"{url}/shards/shard-0/\S+ must be readable, got in 5 tries") as caught:
        there.tokens(0)
    assert "\n" not in str(caught.value)
    assert not [path for path in there.path.rglob("shard-0/*") if path.is_file()]


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("memory://nowhere", "memory://nowhere/manifest.json must be there"),
        ("nonsense://store", "nonsense"),
        ("http://127.0.0.1:1/store", r"in 2 tries.*refused"),
    ],
)
def test_a_url_that_holds_no_store_is_refused_in_one_line(tmp_path, url, fault):
    folder = tmp_path / "mirrors" / "one"
    files = UrlFiles(url, Patience(tries=2, first_pause=0.01))
    with pytest.raises(StoreError, match=fault) as caught:
        Store.open(folder, origin=Mirror(files, folder, root=folder.parent, limit=9))
    assert "\n" not in str(caught.value)


def test_damage_in_a_mirror_is_mended_and_damage_at_the_source_is_refused(make_store, in_memory, tmp_path):
    store = make_store(LENGTHS)
    url = in_memory(store, "store")
    folder = open_quickly(url, tmp_path).path
    for name in ("shards/shard-0/tokens.npy", "shards/shard-0/shard.json", "shards.parquet", "manifest.json"):
        open_quickly(url, tmp_path).tokens(0)
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 2] ^= 4
        (folder / name).write_bytes(data)
        again = open_quickly(url, tmp_path)
        np.testing.assert_array_equal(again.tokens(0), store.tokens(0))
        assert (folder / name).read_bytes() == (store.path / name).read_bytes()
    memory = fsspec.filesystem("memory")
    data = bytearray(memory.cat("/store/shards/shard-2/tokens.npy"))
    data[-1] ^= 1
    memory.pipe("/store/shards/shard-2/tokens.npy", bytes(data))
    with pytest.raises(StoreError, match=r"shard-2/tokens.npy must be readable, got in 5 tries"):
        again.tokens(2)
    (problem, *_) = verify(again)
    assert "shard-2/tokens.npy" in problem.line


class CountingFiles:
    """Files made from their names; counts what was fetched."""

    url, poll_seconds = "counted://", 0.1

    def __init__(self) -> None:
        self.fetched: list[str] = []

    def fetch(self, name, take):
        self.fetched.append(name)
        return take([content_of(name)])

    def has_writer(self) -> bool:
        return False


def content_of(name: str) -> bytes:
    return (name * 100)[:100].encode()


def seal_of(name: str) -> FileSeal:
    return FileSeal(100, digest_bytes(content_of(name)))


def test_the_files_used_least_recently_make_room(tmp_path):
    files = CountingFiles()
    mirror = Mirror(files, tmp_path / "root" / "one", root=tmp_path / "root", limit=350)
    names = [f"shards/{letter}/tokens.npy" for letter in "abcd"]
    for age, name in enumerate(names[:3]):
        path = mirror.obtain(name, seal_of(name))
        os.utime(path, (age, age))
    mirror.touch(names[0])
    mirror.obtain(names[3], seal_of(names[3]))
    held = sorted(path.parent.name for path in (tmp_path / "root").rglob("tokens.npy"))
    assert held == ["a", "c", "d"]
    for name in (names[0], names[2], names[3]):
        assert mirror.obtain(name, seal_of(name)).read_bytes() == content_of(name)
    assert files.fetched == names
    left = tmp_path / "root/two/shards/killed/tokens.npy.partial"
    left.parent.mkdir(parents=True)
    left.write_bytes(bytes(300))
    larger = Mirror(files, tmp_path / "root" / "two", root=tmp_path / "root", limit=99)
    assert larger.obtain(names[1], seal_of(names[1])).exists()
    assert len(list((tmp_path / "root").rglob("tokens.npy*"))) == 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("no folder")
    mirror = Mirror(CountingFiles(), tmp_path / "file" / "one", root=tmp_path / "file", limit=350)
    for use in (mirror.update, lambda: mirror.obtain("a/b", seal_of("a/b")), lambda: mirror.load("a/b", len)):
        with pytest.raises(StoreError, match=r"data.cache must have room.*Not a directory") as caught:
            use()
        assert "\n" not in str(caught.value)


def test_threads_that_want_one_file_fetch_it_once(tmp_path):
    files = CountingFiles()
    mirror = Mirror(files, tmp_path / "root" / "one", root=tmp_path / "root", limit=350)
    threads = [threading.Thread(target=mirror.obtain, args=("shards/a/b", seal_of("shards/a/b"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files.fetched == ["shards/a/b"]


READER = """
import sys
from pathlib import Path
import numpy as np
from dataservice.store.mirror import Mirror
from dataservice.store.mirrored import MirroredStore
from dataservice.store.reader import Store
from dataservice.store.urls import UrlFiles
url, folder, local = sys.argv[1:]
local, root = Store.open(local), Path(folder)
there = MirroredStore.open(root / "one", origin=Mirror(UrlFiles(url), root / "one", root=root, limit=900))
generator = np.random.default_rng()
for _ in range(60):
    shards = generator.choice([0, 2, 4], 3)
    rows = there.read_rows(shards, np.arange(3), 50)
    assert (rows == local.read_rows(shards, np.arange(3), 50)).all()
    assert there.sources(int(shards[0])).equals(local.sources(int(shards[0])))
"""


def test_two_processes_share_a_mirror_that_is_too_small(make_store, serve_files, tmp_path):
    store = make_store(LENGTHS)
    url, _ = serve_files(store.path)
    command = [sys.executable, "-c", READER, url, str(tmp_path / "mirrors"), str(store.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[1] for process in processes] == ["", ""]
    assert not list(tmp_path.rglob("*.partial"))
    held = [path.stat().st_size for path in (tmp_path / "mirrors").glob("one/shards/*/*")]
    assert sum(held) <= max(900, *held)


def test_a_window_larger_than_the_cache_is_warned_of(make_store, in_memory, tmp_path, capsys):
    store = make_store(LENGTHS)
    url = in_memory(store, "store")
    size = int((store.shards.tokens * 2 + store.shards.documents * 8).sum())
    for limit, window_shards, is_warned in ((size - 1, 0, True), (size, 0, False), (size - 1, 2, False)):
        options = ["--cache-bytes", str(limit), "--window-shards", str(window_shards), "--cache", str(tmp_path)]
        assert main(["stats", url, *options]) == 0
        output, errors = capsys.readouterr()
        assert "documents" in output
        assert ("data.cache_bytes" in errors and errors.count("\n") == 1) if is_warned else not errors
    assert describe_small_cache(store, config_of(cache_bytes=1)) is None
    # The shards of the one that lies elsewhere count once, however often an epoch passes through it.
    mixed = {url: 3.0, str(make_store(LENGTHS, first_token=2000).path): 1.0}
    for limit in (size - 1, size):
        config = config_of(store=mixed, cache_bytes=limit, cache=str(tmp_path))
        warning = describe_small_cache(open_store(config), config)
        assert (warning is not None and f"got {size} bytes" in warning) if limit < size else warning is None


def test_verify_checks_a_store_at_a_url(make_store, in_memory, tmp_path, capsys):
    url = in_memory(make_store(LENGTHS), "store")
    assert main(["verify", url, "--cache", str(tmp_path)]) == 0
    assert "is as it was written" in capsys.readouterr().out


def test_a_mixture_of_stores_at_several_places_gives_the_bits_of_local_ones(make_store, in_memory, tmp_path):
    places = [make_store(LENGTHS, first_token=first) for first in (1, 2000, 4000)]
    server = StoreServer(places[1], ServerSettings(host="127.0.0.1", port=0))
    try:
        spread = {str(places[0].path): 1.0, server.url: 2.0, in_memory(places[2], "third"): 1.0}
        expected = {str(place.path): weight for place, weight in zip(places, spread.values(), strict=True)}
        mixed, local = (
            config_of(store=store, cache=str(tmp_path / "cache"), window_shards=4) for store in (spread, expected)
        )
        there, here = open_store(mixed), open_store(local)
        assert there.prefix_digest(len(there.shards)) == here.prefix_digest(len(here.shards))
        np.testing.assert_equal(list(BatchDataset(there, mixed)), list(BatchDataset(here, local)))
    finally:
        server.shutdown()
