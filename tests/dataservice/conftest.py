from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from dataservice import Bucket, DataConfig, Store, TokenFormat, write_store

# Examples are not timed: a machine at work on other things must not fail a test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

MakeStore = Callable[..., Store]


@pytest.fixture
def make_store(tmp_path: Path) -> MakeStore:
    """Makes stores whose tokens are all different, so that a pair (input, target) tells which target it is.

    lengths: for each shard the documents' lengths in tokens (a document of n tokens has n + 1 inputs).
    """
    num_made = 0

    def make(
        lengths: Sequence[Sequence[int]],
        *,
        held_out: Sequence[Sequence[int]] | None = None,
        planned_shards: int | None = None,
        path: Path | None = None,
        first_token: int = 1,
    ) -> Store:
        nonlocal num_made
        num_made += 1
        tokens = first_token

        def number(shards: Sequence[Sequence[int]]) -> dict[str, list[range]]:
            nonlocal tokens
            named = {}
            for index, shard in enumerate(shards):
                named[f"shard-{index}"] = []
                for length in shard:
                    named[f"shard-{index}"].append(range(tokens, tokens + length))
                    tokens += length
            return named

        training = number(lengths)
        apart = None if held_out is None else number(held_out)
        format_ = TokenFormat(fingerprint="f" * 64, vocab_size=1 << 20 if tokens >= 1 << 16 else 1 << 16, eod=0)
        return write_store(
            path or tmp_path / f"store-{num_made}", training, format_, held_out=apart, planned_shards=planned_shards
        )

    return make


@pytest.fixture
def store_targets() -> Callable[[Store], Counter]:
    """Counts the (input, target) pairs of a store: all of them exactly once."""

    def count(store: Store) -> Counter:
        pairs: Counter = Counter()
        for shard in range(len(store.shards)):
            tokens = np.asarray(store.tokens(shard)).tolist()
            pairs.update(pairwise(tokens))
        return pairs

    return count


@pytest.fixture
def batch_targets() -> Callable[[Iterable[dict[str, Any]]], Counter]:
    """Counts the (input, target) pairs that have a loss in batches."""

    def count(batches: Iterable[dict[str, Any]]) -> Counter:
        pairs: Counter = Counter()
        for batch in batches:
            real = (
                batch["segments"] > 0
                if batch["packed"]
                else np.broadcast_to(batch["weights"][:, None] > 0, batch["targets"].shape)
            )
            pairs.update(zip(batch["inputs"][real].tolist(), batch["targets"][real].tolist(), strict=True))
        return pairs

    return count


@pytest.fixture
def block_of() -> Callable[[int, int, DataConfig], Callable[[Bucket], tuple[slice, slice]]]:
    """Gives the block of a host: rows over hosts while there are enough, then columns too, as a dyadic mesh does."""

    def block_of(host: int, num_hosts: int, config: DataConfig) -> Callable[[Bucket], tuple[slice, slice]]:
        def block(bucket: Bucket) -> tuple[slice, slice]:
            rows = config.tokens_per_step // bucket.length
            row_hosts = min(rows, num_hosts)
            column_hosts = num_hosts // row_hosts
            row, column = divmod(host, column_hosts)
            height, width = rows // row_hosts, bucket.length // column_hosts
            return slice(row * height, (row + 1) * height), slice(column * width, (column + 1) * width)

        return block

    return block_of


@pytest.fixture
def join_hosts() -> Callable[[Sequence[dict[str, Any]], DataConfig], dict[str, Any]]:
    """Makes the global batch from the blocks of all hosts."""

    def join_hosts(parts: Sequence[dict[str, Any]], config: DataConfig) -> dict[str, Any]:
        whole = dict(parts[0])
        columns = len(parts) // min(config.tokens_per_step // whole["length"], len(parts))
        for name in {"inputs", "targets", "segments"} & set(whole):
            lines = [
                np.concatenate([part[name] for part in parts[first : first + columns]], axis=1)
                for first in range(0, len(parts), columns)
            ]
            whole[name] = np.concatenate(lines)
        if "weights" in whole:
            whole["weights"] = np.concatenate([part["weights"] for part in parts[::columns]])
        return whole

    return join_hosts
