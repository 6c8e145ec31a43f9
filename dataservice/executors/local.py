"""Worker processes of this machine, each of which is given one task at a time and replaced when it dies."""

import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection, get_context, parent_process, resource_tracker
from typing import Any, NamedTuple

from dataservice.executors.attempt import MAX_TRIES, attempt, killed
from tokenizer.interrupts import undisturbed

__all__ = ["LocalPool"]

SPAWN = get_context("spawn")


class Job(NamedTuple):
    """A task in a worker's hands."""

    index: int
    task: Any


class LocalPool:
    """Up to `workers` spawned processes that call `function`.

    A task is charged for the death of the worker that had it, and of no other; after MAX_TRIES deaths it is a Failure.
    """

    def __init__(self, function: Callable[[Any], Any], workers: int) -> None:
        self.workers = workers
        self._function = function
        self._jobs: deque[Job] = deque()
        self._deaths: Counter[int] = Counter()
        self._staff: list[Worker] = []
        # Else the first worker starts it, which leaves that worker open to Ctrl-C.
        resource_tracker.ensure_running()

    def submit(self, index: int, task: Any) -> None:
        """Add a task."""
        self._jobs.append(Job(index, task))

    def collect(self, seconds: float) -> list[tuple[int, Any]]:
        """(index, result or Failure) of tasks that are done, waiting up to some seconds for one."""
        self._hand_out()
        busy = {worker.pipe: worker for worker in self._staff if worker.job is not None}
        if not busy:
            time.sleep(seconds)
            return []
        outcomes = []
        for pipe in connection.wait(list(busy), seconds):
            worker = busy[pipe]  # type: ignore[index]
            try:
                outcomes.append(worker.take())
            except (EOFError, OSError):
                outcomes += self._bury(worker)
        self._hand_out()
        return outcomes

    def _hand_out(self) -> None:
        while self._jobs:
            worker = next((worker for worker in self._staff if worker.job is None), None)
            if worker is None and len(self._staff) == self.workers:
                return
            if worker is None:
                with undisturbed():
                    worker = Worker(self._function)
                    self._staff.append(worker)
            try:
                worker.give(self._jobs[0])
                self._jobs.popleft()
            except OSError:
                # It died idle, which says nothing about the task.
                self._dismiss(worker)

    def _bury(self, worker: "Worker") -> list[tuple[int, Any]]:
        """Replace a worker that died at work; its task is done again, unless that has killed too many."""
        job = worker.job
        assert job is not None
        self._dismiss(worker)
        self._deaths[job.index] += 1
        if self._deaths[job.index] == MAX_TRIES:
            return [(job.index, killed(MAX_TRIES))]
        self._jobs.appendleft(job)
        return []

    def _dismiss(self, worker: "Worker") -> None:
        self._staff.remove(worker)
        worker.end()

    def close(self) -> None:
        """End the workers: tasks are idempotent, so half of one costs only its time."""
        while self._staff:
            self._dismiss(self._staff[-1])


class Worker:
    """One process, the pipe to it, and the job that it has."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.job: Job | None = None
        self._process = SPAWN.Process(target=serve, args=(theirs, function), daemon=True)
        self._process.start()
        # The end of the process is the end of the pipe only where nobody else holds its other side.
        theirs.close()

    def give(self, job: Job) -> None:
        """Hand a job over; OSError when the process is dead."""
        self.pipe.send(job.task)
        self.job = job

    def take(self) -> tuple[int, Any]:
        """(index, outcome) of the job; EOFError or OSError when the process died before it was whole."""
        assert self.job is not None
        outcome = self.job.index, self.pipe.recv()
        self.job = None
        return outcome

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.pipe.close()


def serve(pipe: connection.Connection, function: Callable[[Any], Any]) -> None:
    """The life of a worker: one task after the other until the pipe ends."""
    # Ends with the parent, however that ends, and leaves Ctrl-C to it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=die_with_parent, daemon=True).start()
    # The pipe breaks when the parent dies, which is nothing to report.
    with suppress(EOFError, OSError):
        while True:
            pipe.send(attempt(function, pipe.recv()))


def die_with_parent() -> None:
    """Wait for the end of the parent and end the process."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
