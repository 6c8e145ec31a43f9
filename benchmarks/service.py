"""Batches over the service on loopback, beside the local store: python -m benchmarks.service [--store STORE].

Batches are those of the loader without prefetching, of rows of one length, inputs and targets; both sides give the same
ones, which is checked. CPU seconds are of the client and the server together, so they hold on a machine that does other
things as well.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dataservice import DataConfig, Store, TokenFormat, batches, open_store
from dataservice.store.lock import WriterLock
from dataservice.store.shard import ShardWriter
from dataservice.store.writer import StoreWriter

TOKENS_PER_BATCH = 262_144
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
SHARDS, SHARD_TOKENS = 8, 8_000_000
WARM_UP_BATCHES = 64
# Each with the process id of its server.
Stores = dict[str, tuple[Store, int | None]]
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Rates(NamedTuple):
    """Millions of tokens per second of wall and of CPU."""

    wall: float
    cpu: float


def make_store(path: Path) -> None:
    """Write a store of random tokens: 8 shards, 128 MB."""
    tokens_of = TokenFormat(fingerprint="0" * 64, vocab_size=32_768, eod=0)
    generator = np.random.default_rng(0)
    with WriterLock(path):
        writer = StoreWriter(path=path, tokens_of=tokens_of, planned_shards=SHARDS, settings={})
        records = []
        for shard in range(SHARDS):
            ids = generator.integers(1, 32_768, SHARD_TOKENS, dtype=np.uint16)
            # With its <eod>, a document is as long as two of the longest rows.
            offsets = np.arange(0, SHARD_TOKENS + 1, 2 * LENGTHS[-1] - 1)
            sources = [[""] * (len(offsets) - 1)] * 3
            with ShardWriter(path, f"shard-{shard}", tokens_of) as shard_writer:
                shard_writer.append(ids, offsets, sources, num_bytes=len(ids))
                records.append(shard_writer.finish("random"))
        writer.commit(records)


@contextmanager
def served(store: Path) -> Iterator[tuple[str, int]]:
    """Yield (URL, process id) of a server of the store."""
    command = [sys.executable, "-m", "dataservice", "serve", str(store), "--port", "0", "--log-every", "3600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().partition("data.store=")[2].strip(), process.pid
        process.terminate()


def cpu_of(process: int | None) -> float:
    """CPU seconds of this process, and of another one."""
    own = time.process_time()
    if process is None:
        return own
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return own + (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def rates_of(store: Store, length: int, num_batches: int, process: int | None) -> tuple[Rates, np.ndarray]:
    """Read batches of rows of a length; their rates, and the checksums of the batches' targets."""
    config = DataConfig(
        tokens_per_step=TOKENS_PER_BATCH, min_length=length, max_length=length, tails="drop", prefetch=0, epochs=1 << 30
    )
    iterator = iter(batches(store, config))
    for _ in range(WARM_UP_BATCHES):
        next(iterator)
    tokens, sums = 0, []
    cpu, wall = cpu_of(process), time.perf_counter()
    for _ in range(num_batches):
        batch = next(iterator)
        tokens += batch["inputs"].size
        sums.append(batch["targets"].reshape(-1).view(np.uint64).sum())
    wall, cpu = time.perf_counter() - wall, cpu_of(process) - cpu
    iterator.close()
    return Rates(tokens / 1e6 / wall, tokens / 1e6 / cpu), np.array(sums)


def main() -> None:
    parser = argparse.ArgumentParser(description="Batches over the service on loopback, beside the local store.")
    parser.add_argument("--store", type=Path, help="a prepared store (default: one of random tokens is made)")
    parser.add_argument("--batches", type=int, default=200, help="batches for each length and turn")
    parser.add_argument("--turns", type=int, default=3, help="turns, of which the best one counts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.store or Path(folder, "store")
        if options.store is None:
            make_store(path)
        with served(path) as (url, server):
            there = open_store(DataConfig(store=url, cache=folder))
            stores: Stores = {"local": (Store.open(path), None), "service": (there, server)}
            print("| length | local, Mtok/s | per CPU s | service, Mtok/s | per CPU s |\n|---|---|---|---|---|")
            for length in LENGTHS:
                print(f"| {length} | " + " | ".join(compare(stores, length, options)) + " |", flush=True)


def compare(stores: Stores, length: int, options: argparse.Namespace) -> list[str]:
    """Cells of a line: the best rates of each store, in turns."""
    best = dict.fromkeys(stores, Rates(0, 0))
    for _ in range(options.turns):
        sums = []
        for name, (store, process) in stores.items():
            rates, found = rates_of(store, length, options.batches, process)
            best[name] = Rates(*map(max, best[name], rates))
            sums.append(found)
        assert (sums[0] == sums[1]).all()
    return [f"{rate:.0f}" for rates in best.values() for rate in rates]


if __name__ == "__main__":
    main()
