"""Running a server until somebody asks it to end."""

import os
import signal
import sys
import threading
from types import FrameType

from dataservice.service.access import TOKEN_VARIABLE, read_token
from dataservice.service.address import check_address
from dataservice.service.server import StoreServer
from dataservice.service.settings import ServerSettings
from dataservice.store import Store

__all__ = ["serve"]

# Calls under way have this long to end; clients ask another server, or this one when it is back.
GRACE_SECONDS = 5.0


def serve(store: Store, settings: ServerSettings) -> int:
    """Serves a store until SIGINT or SIGTERM, and returns the exit status; prints the URL, then what is done."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    # gRPC would tell of clients that leave, and of its own opinion on each error that is said below in one line.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    token = read_token(settings.token_file)
    check_address(settings)
    server = StoreServer(store, settings, token)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    who = f"whoever has the token of {settings.token_file or TOKEN_VARIABLE}" if token else "anybody"
    print(f"serving {store.path} to {who}: data.store={server.url}", flush=True)
    if token is not None and settings.tls_certificate is None:
        print("warning: without --tls-certificate the token can be read on the network", file=sys.stderr, flush=True)
    while not ended.wait(settings.log_every):
        _log(server)
    closing = threading.Thread(target=server.shutdown, daemon=True)
    closing.start()
    closing.join(GRACE_SECONDS)
    _log(server)
    print(f"ended after {server.metrics.report()['requests']:,} requests", flush=True)
    if closing.is_alive():
        # A call that does not end keeps gRPC's threads, and those this process.
        os._exit(0)
    return 0


def _log(server: StoreServer) -> None:
    line = server.metrics.take_line()
    if line is not None:
        print(line, file=sys.stderr, flush=True)
