"""The server: answers with ranges of tokens and files of one store, and remembers nothing between calls."""

import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from dataservice.errors import DataError, StoreError
from dataservice.service.access import read_bytes
from dataservice.service.metrics import ServerMetrics
from dataservice.service.protocol import FileRequest, TokenRequest, checksum, parse_request
from dataservice.service.settings import ServerSettings
from dataservice.store import Store
from dataservice.store.demand import raise_demand
from dataservice.store.files import parse_sealed_json
from dataservice.store.manifest import MANIFEST_NAME
from dataservice.store.reader import HELD_OUT_NAME, TABLE_NAME, TOKENIZER_NAME
from dataservice.store.shard import DATA_FILES, IDENTITY_NAME, RECORD_NAME, SHARDS

__all__ = ["StoreServer"]

PIECE_BYTES = 1 << 22
MOST_DIGITS = 15
SHARD_FILES = (*DATA_FILES, RECORD_NAME, IDENTITY_NAME)


class StoreServer(flight.FlightServerBase):
    """Serves a store, also one that grows, from when it is made until `shutdown`.

    Attributes:
        url: what clients set data.store to.
        metrics: what it has done.
    """

    def __init__(self, store: Store, settings: ServerSettings, token: str | None = None) -> None:
        self.metrics = ServerMetrics()
        self._store = store
        self._settings = settings
        scheme, certificates = "grpc", None
        if settings.tls_certificate is not None and settings.tls_key is not None:
            scheme = "grpc+tls"
            certificates = [
                (
                    read_bytes("tls_certificate", settings.tls_certificate),
                    read_bytes("tls_key", settings.tls_key),
                )
            ]
        middleware = {} if token is None else {"token": TokenCheck(token, self.metrics)}
        try:
            super().__init__(
                f"{scheme}://{settings.host}:{settings.port}", tls_certificates=certificates, middleware=middleware
            )
        except (pa.ArrowException, OSError) as error:
            needed = "free" if certificates is None else "free, and tls_certificate fit tls_key"
            raise DataError(
                f"address must be {needed}, got {settings.host}:{settings.port} ({str(error).splitlines()[0]}); "
                "choose another host or port (0: any that is free)" + (" or PEM files" if certificates else "")
            ) from error
        self.url = f"{scheme}://{settings.host}:{self.port}"

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """A file, or tokens, in pieces with checksums."""
        with self._counted():
            size, limit = len(ticket.ticket), self._settings.max_request_bytes
            if size > limit:
                raise ValueError(f"request must be of at most {limit} bytes, got {size}; raise max_request_bytes")
            request = parse_request(ticket.ticket)
            if isinstance(request, FileRequest):
                return self._send_file(self._find_file(request.name))
            return self._send_tokens(request)

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """What `ACTIONS` says of an action, as JSON."""
        with self._counted():
            if action.type not in ACTIONS:
                raise ValueError(f"action must be one of {', '.join(ACTIONS)}, got {action.type!r}; ask for another")
            return iter([json.dumps(self._act(action.type, action.body.to_pybytes())).encode()])

    def _act(self, name: str, body: bytes) -> Any:
        if name == "writer":
            return self._store.writer_fault() is None
        if name == "demand":
            if not body.isdigit() or len(body) > MOST_DIGITS:
                raise ValueError("demand must be a number of shards, got something else; use a client of DyadLM")
            raise_demand(self._store.path, int(body))
            return True
        state = {"shards": len(self._store.shards), "planned_shards": self._store.num_planned_shards}
        return {"status": "ok", **state} if name == "health" else {**self.metrics.report(), **state}

    def list_actions(self, context: flight.ServerCallContext) -> list[flight.ActionType]:
        """The actions."""
        return [flight.ActionType(name, doc) for name, doc in ACTIONS.items()]

    def read_tokens(self, store: Store, request: TokenRequest) -> np.ndarray:
        """The tokens that a request asks of a store, in one dimension."""
        if isinstance(request.lengths, int):
            return store.read_rows(request.shards, request.starts, request.lengths).reshape(-1)
        return store.read_pieces(request.shards, request.starts, request.lengths)

    def cut(self, values: np.ndarray, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        """Yield stretches of an array as batches, each with its checksum."""
        count = PIECE_BYTES // values.itemsize
        for start in range(0, len(values), count):
            piece = values[start : start + count]
            column = pa.Array.from_buffers(schema.types[0], len(piece), [None, pa.py_buffer(piece)])
            yield pa.RecordBatch.from_arrays([column], schema=schema), checksum(piece.data)

    def _send_tokens(self, request: TokenRequest) -> flight.FlightDataStream:
        store = self._find_store(held_out=request.held_out)
        self._check_identity(store, request)
        size, limit = request.num_tokens * store.dtype.itemsize, self._settings.max_response_bytes
        if size > limit:
            raise ValueError(f"response must be of at most {limit} bytes, got {size}; raise max_response_bytes")
        tokens = self.read_tokens(store, request)
        self.metrics.add(tokens=len(tokens), bytes=tokens.nbytes)
        schema = pa.schema([("tokens", pa.from_numpy_dtype(tokens.dtype))])
        return flight.GeneratorStream(schema, self.cut(tokens, schema))

    def _find_store(self, *, held_out: bool) -> Store:
        if not held_out:
            return self._store
        if self._store.held_out is None:
            raise ValueError("store must have held-out documents, got none; serve the store that the client opened")
        return self._store.held_out

    def _check_identity(self, store: Store, request: TokenRequest) -> None:
        if len(store.shards) < request.num_shards:
            self._store.refresh()
        if len(store.shards) < request.num_shards:
            raise flight.FlightUnavailableError(
                f"store must have {request.num_shards} shards, got {len(store.shards)} so far; ask again later"
            )
        prefix = store.prefix_digest(request.num_shards)
        if prefix != request.prefix:
            raise ValueError(
                f"store must begin with the {request.num_shards} shards with digest {request.prefix[:12]}, got "
                f"{prefix[:12]}; serve the store that the client opened"
            )

    def _send_file(self, path: Path) -> flight.FlightDataStream:
        schema = pa.schema([("bytes", pa.uint8())])

        def pieces() -> Iterator[tuple[pa.RecordBatch, bytes]]:
            with path.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    self.metrics.add(bytes=len(piece))
                    yield from self.cut(np.frombuffer(piece, np.uint8), schema)

        return flight.GeneratorStream(schema, pieces())

    def _find_file(self, name: str) -> Path:
        """Where a file lies that belongs to the store: names are looked up, never followed."""
        store, prefix, inner = self._store, f"{HELD_OUT_NAME}/", name
        if name.startswith(prefix) and store.held_out is not None:
            store, inner = store.held_out, name.removeprefix(prefix)
        if inner in (MANIFEST_NAME, TABLE_NAME):
            store.origin.update()
            return store.path / inner
        folder, _, rest = inner.partition("/")
        if folder == TOKENIZER_NAME and rest in store.manifest.tokenizer:
            return store.origin.obtain(inner, store.manifest.tokenizer[rest])
        shard, _, file = rest.rpartition("/")
        if folder == SHARDS and file in SHARD_FILES and self._has_shard(store, shard):
            if file in DATA_FILES:
                return store.check_file(store.shards.numbers[shard], file)
            store.origin.load(inner, parse_sealed_json)
            return store.path / inner
        raise ValueError(f"file must be one of the store's, got {name!r}; ask for another")

    def _has_shard(self, store: Store, name: str) -> bool:
        if name not in store.shards.numbers and not store.is_complete:
            self._store.refresh()
        return name in store.shards.numbers

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Counts a request, and gives faults that are the client's the status that it knows them by."""
        self.metrics.add(requests=1)
        try:
            yield
        except BaseException as error:
            self.metrics.add(errors=1)
            if isinstance(error, StoreError):
                # Damage here may be whole on another server.
                raise flight.FlightUnavailableError(str(error)) from None
            if isinstance(error, ValueError | IndexError):
                raise pa.ArrowInvalid(str(error)) from None
            raise


ACTIONS = {
    "demand": "Say how many shards are needed, to whom prepares no more than is needed soon.",
    "health": "Whether the store can be read, and its shards, as JSON.",
    "metrics": "What the server has done since it started, as JSON.",
    "writer": "Whether shards may still be added to the store, as JSON.",
}


class TokenCheck(flight.ServerMiddlewareFactory):
    """Refuses every call that does not carry the token."""

    def __init__(self, token: str, metrics: ServerMetrics) -> None:
        super().__init__()
        self._expected = f"Bearer {token}".encode()
        self._metrics = metrics

    def start_call(self, info: Any, headers: dict[str, list[str | bytes]]) -> None:
        """Let the call pass, or raise."""
        values = [value for name, found in headers.items() if name.lower() == "authorization" for value in found]
        sent = values[0] if values else b""
        # In constant time: how long a wrong token takes says nothing about the right one.
        if not hmac.compare_digest(sent.encode() if isinstance(sent, str) else sent, self._expected):
            self._metrics.add(requests=1, errors=1)
            raise flight.FlightUnauthenticatedError("token must be that of the server, got another or none")
