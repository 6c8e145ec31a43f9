import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from dataservice import Store
from dataservice.service.access import Access
from dataservice.service.remote_store import ServedStore
from dataservice.service.server import StoreServer
from dataservice.service.settings import ServerSettings
from dataservice.store.retrying import Patience

QUICK = Patience(tries=5, first_pause=0.02, longest_pause=0.1, timeout=20.0)


@pytest.fixture
def serve() -> Iterator[Callable[..., StoreServer]]:
    """Serves stores from this process, on free ports."""
    with ExitStack() as stack:

        def start(store: Store, *, kind: type[StoreServer] = StoreServer, token: str | None = None, **settings):
            server = kind(store, ServerSettings(**{"host": "127.0.0.1", "port": 0, **settings}), token)
            stack.callback(server.shutdown)
            return server

        yield start


@pytest.fixture
def connect(tmp_path: Path) -> Callable[..., ServedStore]:
    """Opens served stores, each with a mirror of its own unless told which."""
    num_made = 0

    def open_(*urls: str, mirror: str | None = None, patience: Patience = QUICK, limit: int = 1 << 30, **access):
        nonlocal num_made
        num_made += 1
        folder = tmp_path / "cache" / "mirrors" / (mirror or f"mirror-{num_made}")
        return ServedStore.connect(urls, folder, access=Access(**access), limit=limit, patience=patience)

    return open_


class ServerProcess(NamedTuple):
    process: subprocess.Popen[str]
    url: str


@pytest.fixture
def start_process() -> Iterator[Callable[..., ServerProcess]]:
    """Runs `python -m dataservice serve`, and ends what still runs."""
    with ExitStack() as stack:

        def start(store: Path, *options: str, **environment: str) -> ServerProcess:
            port = () if "--port" in options else ("--port", "0")
            process = subprocess.Popen(
                [sys.executable, "-m", "dataservice", "serve", str(store), "--host", "127.0.0.1", *port, *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            return ServerProcess(process, line.partition("data.store=")[2].strip() or process.stderr.read())

        yield start
