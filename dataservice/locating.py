"""Opening the store that `data.store` names: a folder, a URL that fsspec knows, servers, or several of these."""

import re
from dataclasses import replace
from pathlib import Path

from dataservice.config import DataConfig
from dataservice.errors import DataError
from dataservice.store import Store
from dataservice.store.files import digest_bytes
from dataservice.store.mirror import MIRRORS, Mirror
from dataservice.store.mirrored import MirroredStore
from dataservice.store.mixing import MixedStore
from dataservice.store.urls import UrlFiles

__all__ = ["as_store", "describe_small_cache", "open_store", "split_servers"]


def as_store(store: Store | str | Path, config: DataConfig | None = None) -> Store:
    """An open store: the one that is given, or that of a folder or URL, by the other settings of `config`."""
    if isinstance(store, str | Path):
        return open_store(replace(config or DataConfig(), store=str(store)))
    if not isinstance(store, Store):
        raise DataError(f"store must be a Store, a folder or a URL, got {store!r}; dataservice.open_store opens one")
    return store


def open_store(data: DataConfig | str | Path, fingerprint: str | None = None) -> Store:
    """Opens the store that `data.store` names, or the mixture of several.

    Args:
        data: settings of the data service, or the folder or URL alone. What is read of a store that lies elsewhere is
            kept in data.cache.
        fingerprint: that of the tokenizer it must have been made with; None takes any.

    Raises DataError when there is none, it is damaged, does not answer, or is of another tokenizer.
    """
    if isinstance(data, str | Path):
        data = DataConfig(store=str(data))
    if not isinstance(data, DataConfig):
        raise DataError(f"data must be a DataConfig, a folder or a URL, got {data!r}; give DataConfig(store=STORE)")
    place = data.store
    if place is None:
        raise DataError("data.store must name a store, got null; set data.store=STORE")
    if isinstance(place, dict):
        stores = [open_store(replace(data, store=each), fingerprint) for each in place]
        folder = Path(data.cache, "mixtures", digest_bytes("\0".join(place).encode())[:32])
        return MixedStore.of(stores, list(place.values()), folder)
    scheme = re.match(r"([a-z0-9+]+)(://|::)", place)
    if scheme is None:
        return Store.open(place, fingerprint)
    if scheme[1] in ("file", "local"):
        return Store.open(place.partition("://")[2], fingerprint)
    root = Path(data.cache, MIRRORS)
    folder = root / digest_bytes(place.encode())[:32]
    if scheme[1].startswith("grpc"):
        from dataservice.service.access import Access, read_certificates, read_token
        from dataservice.service.remote_store import ServedStore

        trusted = data.root_certificates
        access = Access(
            token=read_token(data.token_file),
            root_certificates=None if trusted is None else read_certificates("data.root_certificates", trusted),
        )
        return ServedStore.connect(split_servers(place), folder, fingerprint, access=access, limit=data.cache_bytes)
    return MirroredStore.open(folder, fingerprint, Mirror(UrlFiles(place), folder, root=root, limit=data.cache_bytes))


def split_servers(place: str) -> tuple[str, ...]:
    """The URL of each server.

    >>> split_servers("grpc://one:8815,two:8815")
    ('grpc://one:8815', 'grpc://two:8815')
    """
    scheme, _, hosts = place.partition("://")
    if not re.fullmatch(r"[^/,\s]+:\d+(,[^/,\s]+:\d+)*", hosts) or scheme not in ("grpc", "grpc+tls"):
        raise DataError(
            f"data.store must be grpc://HOST:PORT[,HOST:PORT...] or grpc+tls://..., got {place!r}; "
            "name servers as python -m dataservice serve prints them"
        )
    return tuple(f"{scheme}://{host}" for host in hosts.split(","))


def describe_small_cache(store: Store, config: DataConfig) -> str | None:
    """A warning when the shards of a window of a mirrored store do not fit in the mirror; else None.

    Rows are shuffled over a window, so nearly every batch would fetch shards again.
    """
    sizes, digests = store.mirrored_bytes(), store.shards.digests
    if not sizes.any():
        return None
    count = config.window_shards or len(sizes)
    # A mixture may have a shard more than once in a window.
    windows = (slice(first, first + count) for first in range(0, len(sizes), count))
    largest = max(sum(dict(zip(digests[w], sizes[w].tolist(), strict=True)).values()) for w in windows)
    if largest <= config.cache_bytes:
        return None
    return (
        f"warning: the shards of a window should fit in data.cache_bytes={config.cache_bytes}, got {largest} bytes; "
        "raise it or lower data.window_shards, or most batches will fetch shards again"
    )
