"""Running one function over many tasks by an executor, with results in the order of the tasks."""

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, Literal, Protocol, TypeVar, get_args

from dataservice.executors.attempt import Failure, attempt
from dataservice.executors.local import LocalPool

__all__ = ["EXECUTORS", "Executor", "Pool", "count_workers", "run_in_order"]

Task = TypeVar("Task")
Result = TypeVar("Result")

Executor = Literal["local", "ray"]
EXECUTORS: tuple[str, ...] = get_args(Executor)

# Tasks done ahead of the first that is not, for each worker: enough that one slow shard does not stop the others.
TASKS_AHEAD = 4
POLL_SECONDS = 0.1


class Pool(Protocol):
    """Workers that do tasks in any order, each task in the end once."""

    workers: int

    def submit(self, index: int, task: Any) -> None:
        """Add a task."""
        ...

    def collect(self, seconds: float) -> list[tuple[int, Any]]:
        """(index, result or Failure) of tasks that are done, waiting up to some seconds for one."""
        ...

    def close(self) -> None:
        """End the workers, whatever they are at."""
        ...


def count_workers(workers: int) -> int:
    """Number of worker processes; 0 stands for one per core that this process may use."""
    if workers:
        return workers
    # macOS cannot say which cores a process may use.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_in_order(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int = 0,
    executor: Executor = "local",
    *,
    is_wanted: Callable[[int], bool] = lambda index: True,
) -> Generator[list[Result | Failure], None, None]:
    """Yield the outcomes of tasks in their order, as lists of those that became ready together.

    Args:
        function: idempotent, since the task of a killed worker is done again.
        tasks: what it is called with.
        workers: how many at once; 0: one per core (of the cluster, with Ray). One worker is this process.
        executor: local: processes of this machine; ray: tasks of Ray.
        is_wanted: whether a task, by index, may be begun yet; asked again and again until it may.
    """
    if not tasks:
        return
    with closing(make_pool(function, workers, executor, len(tasks))) as pool:
        yield from outcomes_in_order(pool, tasks, is_wanted)


def outcomes_in_order(
    pool: Pool, tasks: Sequence[Any], is_wanted: Callable[[int], bool]
) -> Generator[list[Any], None, None]:
    """The outcomes of tasks in their order, with a bounded number of them begun before the first is done."""
    begun = done = 0
    waiting: dict[int, Any] = {}
    while done < len(tasks):
        while begun < min(len(tasks), done + TASKS_AHEAD * pool.workers) and is_wanted(begun):
            pool.submit(begun, tasks[begun])
            begun += 1
        waiting.update(pool.collect(POLL_SECONDS))
        ready = []
        while done in waiting:
            ready.append(waiting.pop(done))
            done += 1
        if ready:
            yield ready


def make_pool(function: Callable[[Any], Any], workers: int, executor: Executor, num_tasks: int) -> Pool:
    """The workers that an executor stands for."""
    if executor == "ray":
        from dataservice.executors.ray_tasks import RayPool  # Ray is an extra

        return RayPool(function, workers)
    workers = min(count_workers(workers), num_tasks)
    return LocalPool(function, workers) if workers > 1 else OwnProcess(function)


class OwnProcess:
    """The pool of one worker: this process."""

    workers = 1

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._tasks: deque[tuple[int, Any]] = deque()

    def submit(self, index: int, task: Any) -> None:
        """Add a task."""
        self._tasks.append((index, task))

    def collect(self, seconds: float) -> list[tuple[int, Any]]:
        """Do a task; nothing to do is waited for."""
        if not self._tasks:
            time.sleep(seconds)
            return []
        index, task = self._tasks.popleft()
        return [(index, attempt(self._function, task))]

    def close(self) -> None:
        """Nothing is left."""
