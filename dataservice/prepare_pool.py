"""Running one function over many tasks in processes, with results in order of the tasks."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from typing import TypeVar

from dataservice.errors import IngestError

__all__ = ["count_workers", "run_in_order"]

Task = TypeVar("Task")
Result = TypeVar("Result")

# Tasks handed out ahead, for each worker: enough that one slow shard does not stop the others.
TASKS_AHEAD = 4
MAX_FAILURES = 3


def count_workers(workers: int) -> int:
    """Number of worker processes; 0 stands for one per core that this process may use."""
    if workers:
        return workers
    # macOS cannot say which cores a process may use.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_in_order(
    function: Callable[[Task], Result], tasks: Sequence[Task], workers: int
) -> Generator[list[Result], None, None]:
    """Yields results in the order of the tasks, as lists of those that became ready together.

    With one worker everything happens in this process. Workers that were killed are replaced, and their tasks done
    again; IngestError when that happens MAX_FAILURES times with no result between.
    """
    if workers == 1:
        yield from ([function(task)] for task in tasks)
        return
    done = failures = 0
    while done < len(tasks):
        try:
            for results in _run_pool(function, tasks[done:], workers):
                done, failures = done + len(results), 0
                yield results
        except BrokenProcessPool as error:
            failures += 1
            if failures == MAX_FAILURES:
                raise IngestError(
                    f"worker processes must stay alive, got {failures} killed in a row (out of memory?); "
                    "use fewer with --workers 1"
                ) from error


def _run_pool(
    function: Callable[[Task], Result], tasks: Sequence[Task], workers: int
) -> Generator[list[Result], None, None]:
    pool = ProcessPoolExecutor(min(workers, len(tasks)), get_context("spawn"), initializer=_obey_parent)
    futures: deque[Future[Result]] = deque()
    waiting = iter(tasks)
    try:
        while True:
            while len(futures) < TASKS_AHEAD * workers and (task := next(waiting, None)) is not None:
                futures.append(pool.submit(function, task))
            if not futures:
                return
            results = [futures.popleft().result()]
            while futures and futures[0].done() and futures[0].exception() is None:
                results.append(futures.popleft().result())
            yield results
    finally:
        pool.shutdown(cancel_futures=True)


def _obey_parent() -> None:
    """In a worker: ends with the parent, however that ends, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
