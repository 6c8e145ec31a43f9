"""Reading batches of shuffled rows: DyadLM against its peers, from files that are in the page cache.

    python -m dataservice prepare PATH.parquet ... --tokenizer DIR --output STORE
    python -m benchmarks.loader STORE [--repeats 3] [--lengths 64 256 1024 8192] [--python streaming=VENV/bin/python]

A batch has 262,144 tokens: inputs and targets, contiguous, every byte of which is read once. At each length the store
is cut into rows of that length alone, and every peer is given these rows: `memmap` gathers them from one file by a
true random permutation and does nothing beyond that; grain reads one ArrayRecord record a row and batches them;
`streaming` is MosaicML's, with its own shards. `natural` is the mixture of all lengths and packed tails, DyadLM only.
grain has two threads, or two workers; `thread` is DyadLM with data.prefetch=2.

Each run has a process of its own, and runs alternate. Libraries are imported before a clock starts. `first batch` is
from opening to the first batch (DyadLM: a store without indexes, so they are made and the digests of all shards are
checked); `again` the same once more, after which reading is timed; `resume` from opening, through setting the state
after three batches, to the next batch, which must be the one that the first reader gives (`resumes`). CPU seconds are
of all threads and child processes. `DyadLM over it` is the median over turns of the ratio of tokens per CPU second
within a turn. `same rows` compares checksums of the first epoch with DyadLM's; - says that none ended in time.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.loader_peers import PEERS, Arrays, Stream
from benchmarks.measurement import installed, middle, paired_ratio, print_table, run_in_turns

OURS = {"DyadLM": 0, "DyadLM, thread": 2}
NATURAL = "natural"
BATCHES_BEFORE = 2  # taken after the first, before the state
LEAST_BATCHES = 6  # so that what workers have ready, or have not begun, weighs little
TICK = os.sysconf("SC_CLK_TCK")


class LoaderRun(NamedTuple):
    """What one run took; seconds."""

    first: float
    again: float
    resume: float
    resumes: bool
    wall: float
    cpu: float
    tokens: int
    checksum: int | None  # of the first epoch, in whatever order it came; None when it did not end

    @property
    def rate(self) -> float:
        return self.tokens / self.wall

    @property
    def cpu_rate(self) -> float:
        return self.tokens / self.cpu


def time_stream(open_stream: Callable[[Any], Stream], seconds: float, epoch_rows: int) -> LoaderRun:
    """Open, resume after some batches, open again and read for so many seconds, some batches at least."""
    first, _, stream = time_opening(open_stream, None)
    for _ in range(BATCHES_BEFORE):
        next(stream.batches)
    state, wanted = stream.state(), next(stream.batches)
    stream.close()
    resume, batch, stream = time_opening(open_stream, state)
    stream.close()
    resumes = all(np.array_equal(a, b) for a, b in zip(batch, wanted, strict=True))
    again, batch, stream = time_opening(open_stream, None)
    # The batch of the opening counts for the checksum alone, since its making is not timed here.
    rows, tokens, checksum, ended = len(batch[0]), 0, touch(batch), None
    cpu, wall = cpu_seconds(), time.perf_counter()
    for number, arrays in enumerate(stream.batches, start=1):
        tokens += arrays[0].size
        rows += len(arrays[0])
        checksum = (checksum + touch(arrays)) % 2**64
        ended = checksum if rows == epoch_rows else ended
        if number >= LEAST_BATCHES and time.perf_counter() - wall >= seconds:
            break
    cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    stream.close()
    return LoaderRun(first, again, resume, resumes, wall, cpu, tokens, ended)


def time_opening(open_stream: Callable[[Any], Stream], state: Any) -> tuple[float, Arrays, Stream]:
    start = time.perf_counter()
    stream = open_stream(state)
    batch = next(stream.batches)
    return time.perf_counter() - start, batch, stream


def touch(arrays: Arrays) -> int:
    """Read every byte of a batch; the sum does not depend on the order of rows."""
    return sum(int(array.reshape(-1).view(np.uint64).sum()) for array in arrays)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, its living descendants, and those that ended."""
    ticks, processes = 0, [os.getpid()]
    while processes:
        folder = Path("/proc", str(processes.pop()))
        # After the name in brackets: user, system, and the same of children that ended, in ticks.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
        for task in folder.glob("task/*/children"):
            processes += map(int, task.read_text().split())
    return ticks / TICK


def rows_config(length: str, tokens_per_step: int, **settings: Any) -> Any:
    """Return the settings that cut a store into rows of one length, or into all."""
    from dataservice import DataConfig

    if length != NATURAL:
        settings |= {"min_length": int(length), "max_length": int(length), "tails": "drop"}
    return DataConfig(tokens_per_step=tokens_per_step, **settings)


def write_rows(store: str, length: str, tokens_per_step: int, folder: Path) -> None:
    """Write the rows of a length, with the target after each, into rows.npy, (N, length + 1), for all peers."""
    from dataservice import Store, batches

    config = rows_config(length, tokens_per_step)
    dataset = iter(batches(Store.open(store), config))
    rows = [np.hstack([batch["inputs"], batch["targets"][:, -1:]])[batch["weights"] > 0] for batch in dataset]
    dataset.close()
    np.save(folder / "rows.npy", np.concatenate(rows))


def open_dyadlm(store: Path, config: Any, state: Any) -> Stream:
    from dataservice import Store, batches

    iterator = iter(batches(Store.open(store), config))
    if state is not None:
        iterator.set_state(state)

    def arrays() -> Iterator[Arrays]:
        for batch in iterator:
            found = tuple(batch[name] for name in ("inputs", "targets", "segments") if name in batch)
            # Rows that fill the last batch of an epoch come last.
            full = batch["packed"] or batch["weights"][-1]
            yield found if full else tuple(array[batch["weights"] > 0] for array in found)

    return Stream(arrays(), iterator.get_state, iterator.close)


def link_store(store: Path, folder: Path) -> Path:
    """Make a folder with all that the store has but its indexes."""
    for path in store.resolve().iterdir():
        if path.name != "indexes":
            (folder / path.name).symlink_to(path)
    return folder


def run_peer(options: argparse.Namespace) -> LoaderRun:
    """Measure one peer at one length in this process."""
    rows = Path(options.rows) / options.length
    num_rows = len(np.load(rows / "rows.npy", mmap_mode="r")) if options.length != NATURAL else 0
    if options.peer not in OURS:
        peer = PEERS[options.peer]
        written = rows / peer.module
        if not written.exists():
            peer.write(rows)
            written.touch()
        __import__(peer.module)
        size = options.tokens_per_step // int(options.length)
        return time_stream(partial(peer.open, rows, size), options.seconds, num_rows)
    __import__("dataservice.loader")
    with tempfile.TemporaryDirectory() as folder:
        store = link_store(Path(options.store), Path(folder))
        # More epochs than can be read, since reading is ended by the clock.
        config = rows_config(options.length, options.tokens_per_step, prefetch=OURS[options.peer], epochs=1 << 30)
        return time_stream(partial(open_dyadlm, store, config), options.seconds, num_rows)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", metavar="STORE", help="a prepared store; its indexes are left alone")
    parser.add_argument("--repeats", type=int, default=3, help="runs of every peer at every length (default 3)")
    parser.add_argument("--lengths", nargs="+", default=["64", "256", "1024", "8192", NATURAL], metavar="LENGTH")
    parser.add_argument("--seconds", type=float, default=3, help="time to read in every run (default 3)")
    parser.add_argument("--tokens-per-step", type=int, default=1 << 18, help="tokens of a batch (default 262144)")
    parser.add_argument(
        "--python", action="append", default=[], metavar="MODULE=PATH", help="interpreter that has a peer's module"
    )
    parser.add_argument("--peer", choices=[*OURS, *PEERS], help=argparse.SUPPRESS)
    parser.add_argument("--rows", help=argparse.SUPPRESS)
    parser.add_argument("--length", help=argparse.SUPPRESS)
    return parser


def main() -> None:
    options = make_parser().parse_args()
    if options.peer:
        print(json.dumps(run_peer(options)))
        return
    pythons = dict(choice.split("=", 1) for choice in options.python)
    here = installed(sorted({peer.module for peer in PEERS.values()} - pythons.keys()))
    present = {name: peer for name, peer in PEERS.items() if peer.module in {*here, *pythons}}
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for length in options.lengths:
            rows = Path(folder, length)
            rows.mkdir()
            if length != NATURAL:
                write_rows(options.store, length, options.tokens_per_step, rows)
            arguments = [options.store, "--rows", folder, "--length", length, "--seconds", str(options.seconds)]
            arguments += ["--tokens-per-step", str(options.tokens_per_step)]
            results = run_in_turns(
                "benchmarks.loader",
                list(OURS) if length == NATURAL else [*OURS, *present],
                arguments,
                options.repeats,
                result=LoaderRun,
                pythons={name: pythons.get(peer.module, sys.executable) for name, peer in present.items()},
            )
            table += [[length, name, *describe(runs, results["DyadLM"])] for name, runs in results.items()]
    print(f"{options.tokens_per_step} tokens a batch, medians of {options.repeats}, {os.cpu_count()} cores\n")
    times = ["first batch ms", "again ms", "resume ms", "resumes", "same rows"]
    print_table(["length", "loader", "Mtok / s", "Mtok / CPU s", "DyadLM over it", *times], table)


def describe(runs: list[LoaderRun], base: list[LoaderRun]) -> list[str]:
    sums = {run.checksum for run in runs} - {None}
    return [
        f"{middle(runs, 'rate') / 1e6:.1f}",
        f"{middle(runs, 'cpu_rate') / 1e6:.1f}",
        f"{paired_ratio(base, runs, 'cpu_rate'):.1f}",
        *(f"{middle(runs, name) * 1e3:.0f}" for name in ("first", "again", "resume")),
        "yes" if all(run.resumes for run in runs) else "no",
        "-" if not sums else "yes" if sums == {run.checksum for run in base} - {None} else "no",
    ]


if __name__ == "__main__":
    main()
