"""Counting in several processes: batches out, one table of words back from each.

A worker is a plain interpreter at the other end of two pipes. It starts in a quarter of a second, imports nothing of
the program that counts, and ends with it; one of `multiprocessing` takes twice as long and runs the main module again.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import BinaryIO, NamedTuple

from tokenizer.counting.counter import Counter
from tokenizer.counting.parts import Batch, Failure, Part
from tokenizer.errors import TokenizerError
from tokenizer.interrupts import undisturbed

__all__ = ["count_together", "start_workers"]

Batches = SimpleQueue[Batch | None]
"""Those that wait for whoever is free, then None for each worker."""


class Worker(NamedTuple):
    """A process, and where its answers come from: not its standard output, to which anything may be printed."""

    process: subprocess.Popen[bytes]
    replies: BinaryIO


@contextmanager
def start_workers(pattern: str, number: int) -> Iterator[list[Worker]]:
    """Start processes, and end them."""
    with ExitStack() as stack:
        workers = []
        for _ in range(number):
            with undisturbed():
                worker = _start_worker(pattern)
                stack.enter_context(worker.replies)
                stack.enter_context(worker.process)
                stack.callback(worker.process.kill)  # it holds nothing that would be left behind
            workers.append(worker)
        yield workers


def _start_worker(pattern: str) -> Worker:
    # First the place of this package: that of a relative entry is another one when the folder was changed since.
    path = [str(Path(__file__).parents[2]), *map(str, sys.path)]
    reading, writing = os.pipe()
    program = (
        f"import sys; sys.path[:] = {path!a}; from tokenizer.counting.worker import serve; "
        f"serve({writing}, parent={os.getpid()})"
    )
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[writing],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads that nothing here uses take time to start
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    with suppress(BrokenPipeError):  # it has ended: that is told when its part is asked for
        assert process.stdin is not None
        pickle.dump(pattern, process.stdin)
        process.stdin.flush()
    return Worker(process, os.fdopen(reading, "rb"))


def count_together(batches: Iterable[Batch], total: Counter, workers: Sequence[Worker]) -> None:
    """Count batches here and in the workers, whoever is free, and put all together in `total`.

    Of several batches that cannot be counted, the first one's error is raised, as if there were no workers.
    """
    if not workers:
        for batch in batches:
            total.add(batch)
        return
    queue: Batches = SimpleQueue()
    with ThreadPoolExecutor(len(workers)) as threads:
        try:  # from before the first thread on: it would wait for ever for what nobody brings after Ctrl-C
            futures = [threads.submit(_feed, worker, queue) for worker in workers]
            own = _count_own_share(batches, queue, total, futures)
            for _ in workers:
                queue.put(None)
            replies = [own, *(future.result() for future in futures)]
        except BaseException:
            for worker in workers:
                worker.process.kill()
                queue.put(None)
            raise
    failures = [reply for reply in replies if isinstance(reply, Failure)]
    if failures:
        raise min(failures, key=lambda failure: failure.number).error
    for reply in replies:
        if isinstance(reply, Part):
            total.absorb(reply)


def _feed(worker: Worker, queue: Batches) -> Part | Failure:
    """Let a worker count what there is in the queue, up to a None, and return what it says then."""
    stdin = worker.process.stdin
    assert stdin is not None
    try:
        while True:
            batch = queue.get()
            # In one write: after each, this thread waits for the interpreter.
            stdin.write(pickle.dumps(batch, pickle.HIGHEST_PROTOCOL))
            stdin.flush()
            if batch is None:
                break
    except BrokenPipeError:  # it has ended: why is to be read
        with suppress(BrokenPipeError):
            stdin.close()
    try:
        return pickle.load(worker.replies)
    except EOFError:
        raise TokenizerError(
            f"a counting process must last until it is done, got exit status {worker.process.wait()}; "
            "where memory is short, fewer processes take less"
        ) from None


def _count_own_share(
    batches: Iterable[Batch], queue: Batches, total: Counter, futures: Sequence[Future[Part | Failure]]
) -> Failure | None:
    """Put batches into the queue, and count here those that are more than the workers will soon take."""
    for batch in _left_over(batches, queue, 2 * len(futures)):
        try:
            total.add(batch)
        except TokenizerError as error:
            return Failure(batch.number, error)
        if any(future.done() for future in futures):  # only a failure comes so early
            return None
    return None


def _left_over(batches: Iterable[Batch], queue: Batches, num_waiting: int) -> Iterator[Batch]:
    for batch in batches:
        queue.put(batch)
        if queue.qsize() > num_waiting:
            with suppress(Empty):
                yield queue.get_nowait()  # type: ignore[misc]
    with suppress(Empty):
        while True:
            yield queue.get_nowait()  # type: ignore[misc]
