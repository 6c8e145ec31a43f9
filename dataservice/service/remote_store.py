"""A store that is served: its small files are mirrored, and tokens come by ranges."""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from pyarrow import flight

from dataservice.service.access import Access
from dataservice.service.connection import Connection
from dataservice.service.protocol import FileRequest, TokenRequest, checksum
from dataservice.store.gathering import gather_pairs
from dataservice.store.mirror import Mirror
from dataservice.store.mirrored import MirroredStore
from dataservice.store.retrying import Patience, TransientError, in_this_context

__all__ = ["ServedFiles", "ServedStore"]

Result = TypeVar("Result")

# Tokens are asked for in parts of about this size, several at a time. The calls themselves cost as much as 1 MB.
PART_BYTES = 1 << 22
PART_ROWS = 1 << 16
PARTS_AT_ONCE = 4


class ServedFiles:
    """The files of a served store, and ranges of its tokens."""

    poll_seconds = 0.5

    def __init__(self, connection: Connection) -> None:
        self.url = ",".join(connection.urls)
        self._connection = connection
        self._pool = ThreadPoolExecutor(PARTS_AT_ONCE, "dataservice-fetch")

    def fetch(self, name: str, take: Callable[[Iterable[bytes]], Result]) -> Result:
        """What `take` makes of a file's bytes, asked again after faults that may pass."""
        ticket = flight.Ticket(FileRequest(name).to_bytes())
        return self._connection.call(
            lambda client, options: take(piece.tobytes() for piece in _receive(client, options, ticket)), is_long=True
        )

    def has_writer(self) -> bool:
        """Whether the server's store may still grow."""
        return self._act("writer")

    def raise_demand(self, count: int) -> None:
        """Tell who prepares the server's store that the first `count` shards are needed."""
        self._act("demand", count)

    def _act(self, name: str, value: Any = None) -> Any:
        action = flight.Action(name, json.dumps(value).encode())
        return self._connection.call(
            lambda client, options: json.loads(next(iter(client.do_action(action, options))).body.to_pybytes())
        )

    def read_tokens(self, requests: list[TokenRequest], dtype: np.dtype) -> np.ndarray:
        """The tokens of several requests, joined; they are asked at the same time."""
        if len(requests) == 1:
            return self._read(requests[0], dtype)
        parts = self._pool.map(in_this_context(lambda request: self._read(request, dtype)), requests)
        return np.concatenate([np.empty(0, dtype), *parts])

    def _read(self, request: TokenRequest, dtype: np.dtype) -> np.ndarray:
        ticket = flight.Ticket(request.to_bytes())

        def read(client: flight.FlightClient, options: flight.FlightCallOptions) -> np.ndarray:
            pieces = list(_receive(client, options, ticket))
            # One piece is not copied: it is where gRPC has put it.
            tokens = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, dtype), *pieces])
            if tokens.dtype != dtype or len(tokens) != request.num_tokens:
                raise TransientError(f"got other tokens than the {request.num_tokens} that were asked")
            return tokens

        return self._connection.call(read)


class ServedStore(MirroredStore):
    """A `Store` whose rows come from servers; everything else is that of its mirror."""

    mirrors_tokens = False
    bytes_at_once = PARTS_AT_ONCE * PART_BYTES

    @classmethod
    def connect(
        cls,
        urls: tuple[str, ...],
        folder: Path,
        fingerprint: str | None = None,
        *,
        access: Access,
        limit: int,
        patience: Patience | None = None,
    ) -> Self:
        """Opens a served store.

        Args:
            urls: of its servers, grpc://host:port or grpc+tls://host:port; the next one is asked when one is silent.
            folder: where its small files are mirrored, in a folder for mirrors.
            fingerprint: of the tokenizer it must have been made with; None takes any.
            access: token and certificates.
            limit: most bytes of the files of shards to keep there.
            patience: how long to ask for an answer.
        """
        files = ServedFiles(Connection(urls, access, patience or Patience()))
        return cls.open(folder, fingerprint, Mirror(files, folder, root=folder.parent, limit=limit))

    def read_rows(self, shards: np.ndarray | int, starts: np.ndarray, width: int) -> np.ndarray:
        """Stretches of `width` tokens, (n, width); see `Store`."""
        lengths = np.full(len(starts), width)
        return self._read(shards, starts, lengths, width).reshape(-1, width)

    def read_pieces(self, shards: np.ndarray | int, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Stretches of any lengths, joined; see `Store`."""
        return self._read(shards, starts, lengths, None)

    def read_pairs(
        self, shards: np.ndarray | int, starts: np.ndarray, lengths: np.ndarray | int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets; see `Store`. They come together, so that no token comes twice."""
        sizes = np.broadcast_to(lengths + 1, starts.shape)
        tokens = self._read(shards, starts, sizes, lengths + 1 if isinstance(lengths, int) else None)
        return gather_pairs(tokens, np.cumsum(sizes) - sizes, lengths)

    def wait_for_shards(
        self, count: int, timeout: float | None = None, is_cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        """Returns once `count` shards are committed there; see `Store`. Whoever makes them is told first."""
        if len(self.shards) < min(count, self.num_planned_shards):
            self._files.raise_demand(count)
        super().wait_for_shards(count, timeout, is_cancelled)

    @property
    def _files(self) -> ServedFiles:
        assert isinstance(self.origin, Mirror) and isinstance(self.origin.remote, ServedFiles)
        return self.origin.remote

    def _read(self, shards: np.ndarray | int, starts: np.ndarray, lengths: np.ndarray, width: int | None) -> np.ndarray:
        assert isinstance(self.origin, Mirror)
        shards = np.broadcast_to(shards, starts.shape)
        held_out, table = bool(self.origin.prefix), self.shards
        requests = [
            TokenRequest.of(table, shards[part], starts[part], lengths[part] if width is None else width, held_out)
            for part in _cut(lengths * self.dtype.itemsize)
        ]
        return self._files.read_tokens(requests, self.dtype)


def _cut(sizes: np.ndarray) -> Iterator[slice]:
    """Yield stretches of requests of about PART_BYTES bytes, and of at most PART_ROWS rows."""
    ends, first = np.cumsum(sizes), 0
    while first < len(ends):
        full = np.searchsorted(ends, ends[first] - sizes[first] + PART_BYTES, side="right")
        stop = int(np.clip(full, first + 1, first + PART_ROWS))
        yield slice(first, stop)
        first = stop


def _receive(
    client: flight.FlightClient, options: flight.FlightCallOptions, ticket: flight.Ticket
) -> Iterator[np.ndarray]:
    """Yield the pieces of an answer, each checked against what the server says of its bytes."""
    answer = client.do_get(ticket, options)
    for chunk in answer:
        piece = chunk.data.column(0).to_numpy()
        sent = b"" if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
        if checksum(piece.data) != sent:
            answer.cancel()
            raise TransientError("got bytes that are not those of their checksum")
        yield piece
