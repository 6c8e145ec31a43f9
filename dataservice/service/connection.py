"""Calls to servers of one store: with a timeout, to the next server after a fault that may pass, and not for ever."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import flight

from dataservice.errors import StoreError
from dataservice.service.access import Access
from dataservice.store.retrying import Patience, TransientError, persist

__all__ = ["Connection"]

Result = TypeVar("Result")
Action = Callable[[flight.FlightClient, flight.FlightCallOptions], Result]

LONG = 10

# Frames and windows that hold a whole piece of an answer: with gRPC's own the same bytes cost 1.6 times the CPU.
# Found dead, a server is asked again by a new channel: without the pauses and the memory of the old one.
CHANNEL_OPTIONS: list[tuple[str, int]] = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
    ("grpc.http2.max_frame_size", 1 << 20),
    ("grpc.http2.lookahead_bytes", 1 << 22),
]
TRANSIENT = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError)
REFUSED = (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)


class Connection:
    """Calls one of several servers, and stays with the one that answers; any thread may call.

    Attributes:
        urls: of the servers, as grpc://host:port or grpc+tls://host:port.
    """

    def __init__(self, urls: tuple[str, ...], access: Access, patience: Patience) -> None:
        self.urls = urls
        self._access = access
        self._patience = patience
        self._current = 0
        self._clients: dict[str, flight.FlightClient] = {}
        self._lock = threading.Lock()
        headers = [] if access.token is None else [(b"authorization", f"Bearer {access.token}".encode())]
        self._options, self._long_options = (
            flight.FlightCallOptions(timeout=timeout, headers=headers)
            for timeout in (patience.timeout, LONG * patience.timeout)
        )

    def call(self, action: Action[Result], *, is_long: bool = False) -> Result:
        """What `action(client, options)` returns with a server that answers; it raises TransientError for bad answers.

        Where it `is_long`, as when the answer is a whole file, the timeout of the call is ten times as long.

        Raises StoreError when a server refuses, or when none has answered in all tries.
        """

        options = self._long_options if is_long else self._options

        def attempt() -> Result:
            faults = []
            for _ in self.urls:
                number = self._current
                try:
                    return self._ask(self.urls[number], action, options)
                except TransientError as error:
                    faults.append(str(error))
                    self._leave(number)
            raise TransientError("; ".join(faults))

        return persist(",".join(self.urls), attempt, self._patience, self._give_up)

    def _ask(self, url: str, action: Action[Result], options: flight.FlightCallOptions) -> Result:
        try:
            return action(self._client(url), options)
        except TRANSIENT as error:
            raise TransientError(f"{url}: {_describe(error)}") from error
        except TransientError as error:
            raise TransientError(f"{url}: {error}") from error
        except REFUSED as error:
            got = "none" if self._access.token is None else "another"
            raise StoreError(
                f"token of data.store must be that of {url}, got {got}; "
                "set the environment variable DYADLM_TOKEN or data.token_file"
            ) from error
        except (pa.ArrowException, flight.FlightError) as error:
            raise StoreError(f"{url} must answer what is asked, got: {_describe(error)}") from error

    def _client(self, url: str) -> flight.FlightClient:
        with self._lock:
            if url not in self._clients:
                options: dict[str, Any] = {"generic_options": CHANNEL_OPTIONS}
                if self._access.root_certificates is not None:
                    options["tls_root_certs"] = self._access.root_certificates
                self._clients[url] = flight.FlightClient(url, **options)
            return self._clients[url]

    def _leave(self, number: int) -> None:
        """Turn to the server after this one, unless another thread has."""
        with self._lock:
            # Not closed: other threads may still read from it.
            self._clients.pop(self.urls[number], None)
            if self._current == number:
                self._current = (number + 1) % len(self.urls)

    def _give_up(self, fault: TransientError) -> StoreError:
        return StoreError(
            f"servers of data.store must answer, got in {self._patience.tries} tries at last: {fault}; start them with "
            "python -m dataservice serve STORE, look for damage with python -m dataservice verify STORE, and mind TLS: "
            "grpc+tls:// is for servers with a certificate that data.root_certificates or this system trusts, grpc:// "
            "for those without one"
        )


def _describe(error: BaseException) -> str:
    """The first sentence of gRPC's account of an error."""
    return " ".join(str(error).split(". gRPC client debug context")[0].split(". Detail:")[0].split())
