"""Other ways to read shuffled rows of one length, each opened at its beginning or where a state says.

A folder holds the rows in `rows.npy`, (N, length + 1) of the tokens' dtype; each peer makes its own files of them.
Nothing of the project is imported here, so that a peer may run under another interpreter.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["PEERS", "Arrays", "Peer", "Stream", "split"]

Arrays = tuple[np.ndarray, ...]
"""The arrays of a batch that a training step needs, each contiguous."""

_SEED = 0


class Stream(NamedTuple):
    """Batches, what gives the state after the last one that was taken, and what ends it."""

    batches: Iterator[Arrays]
    state: Callable[[], Any]
    close: Callable[[], None]


class Peer(NamedTuple):
    """A library that reads rows: `write` makes its files in a folder, `open` is given the folder, rows, state."""

    module: str
    write: Callable[[Path], None]
    open: Callable[[Path, int, Any], Stream]


def split(rows: np.ndarray) -> Arrays:
    """Return inputs and targets of rows (B, length + 1), as arrays of their own."""
    return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])


def read_rows(folder: Path) -> np.ndarray:
    """Return the memory map of all rows, (N, length + 1)."""
    return np.load(folder / "rows.npy", mmap_mode="r")


def write_nothing(folder: Path) -> None:
    """The rows are read from rows.npy itself."""


def open_memmap(folder: Path, num_rows: int, state: int | None) -> Stream:
    """Gather rows of the memory map by a true random permutation, made anew for each epoch."""
    rows = read_rows(folder)
    batches_per_epoch = -(-len(rows) // num_rows)
    taken = state or 0

    def batches() -> Iterator[Arrays]:
        nonlocal taken
        while True:
            epoch, first = divmod(taken, batches_per_epoch)
            order = np.random.default_rng([_SEED, epoch]).permutation(len(rows))
            for batch in range(first, batches_per_epoch):
                taken += 1
                yield split(rows[order[batch * num_rows : (batch + 1) * num_rows]])

    return Stream(batches(), lambda: taken, lambda: None)


def write_array_record(folder: Path) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter  # pyright: ignore[reportMissingImports]

    # One record a group: what grain advises for reading in any order.
    writer = ArrayRecordWriter(str(folder / "rows.array_record"), "group_size:1")
    for row in read_rows(folder):
        writer.write(row.tobytes())
    writer.close()


def open_grain(folder: Path, num_rows: int, state: Any, *, workers: int) -> Stream:
    """Shuffle, decode and batch single records; batches are made by grain's threads, or in `workers` processes."""
    import grain
    from absl import flags

    flags.FLAGS.mark_as_parsed()  # else processes are not started outside of absl's own main
    source = grain.sources.ArrayRecordDataSource(str(folder / "rows.array_record"))
    decode = partial(np.frombuffer, dtype=read_rows(folder).dtype)
    records = grain.MapDataset.source(source)  # pyright: ignore[reportArgumentType] (the two name an index otherwise)
    records = records.seed(_SEED).shuffle().map(decode)
    # Its 16 threads by default would make 16 batches at once before giving the first.
    threads = grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)
    dataset = records.batch(num_rows).repeat().to_iter_dataset(threads)
    if workers:
        dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    iterator = iter(dataset)
    if state is not None:
        iterator.set_state(state)
    return Stream(map(split, iterator), iterator.get_state, end_processes if workers else iterator.close)


def end_processes() -> None:
    """End this process's children at once: grain's own closing waits for ever for workers that read ahead."""
    for process in multiprocessing.active_children():
        process.kill()
        process.join()


def write_mosaic(folder: Path) -> None:
    from streaming import MDSWriter  # pyright: ignore[reportMissingImports]

    rows = read_rows(folder)
    columns = {"tokens": f"ndarray:{rows.dtype.name}:{rows.shape[1]}"}
    with MDSWriter(out=str(folder / "mosaic"), columns=columns, hashes=["xxh64"]) as writer:
        for row in rows:
            writer.write({"tokens": row})


def open_mosaic(folder: Path, num_rows: int, state: Any) -> Stream:
    """Read samples by StreamingDataset and StreamingDataLoader in this process."""
    from streaming import StreamingDataLoader, StreamingDataset  # pyright: ignore[reportMissingImports]
    from streaming.base.util import clean_stale_shared_memory  # pyright: ignore[reportMissingImports]

    clean_stale_shared_memory()
    dataset = StreamingDataset(
        local=str(folder / "mosaic"), shuffle=True, shuffle_seed=_SEED, batch_size=num_rows, num_canonical_nodes=1
    )
    loader = StreamingDataLoader(dataset, batch_size=num_rows, num_workers=0, collate_fn=stack_samples)
    if state is not None:
        loader.load_state_dict(state)

    def batches() -> Iterator[Arrays]:
        while True:
            yield from (split(batch["tokens"]) for batch in loader)

    stream = batches()
    return Stream(stream, loader.state_dict, stream.close)  # pyright: ignore[reportAttributeAccessIssue]


def stack_samples(samples: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the batch as a dict, whose samples the loader can count for its state."""
    return {"tokens": np.stack([sample["tokens"] for sample in samples])}


PEERS = {
    "memmap": Peer("numpy", write_nothing, open_memmap),
    "grain": Peer("grain", write_array_record, partial(open_grain, workers=0)),
    "grain, 2 workers": Peer("grain", write_array_record, partial(open_grain, workers=2)),
    "streaming": Peer("streaming", write_mosaic, open_mosaic),
}
