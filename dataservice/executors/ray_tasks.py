"""Tasks of Ray (extra `ray`), on a cluster that is there or one of this machine."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dataservice.errors import IngestError
from dataservice.executors.attempt import MAX_TRIES, Failure, attempt, killed

__all__ = ["RayPool"]

ROOT = Path(__file__).resolve().parents[2]


class RayPool:
    """Calls `function` in tasks of Ray, each of which is done again when its worker or node is lost.

    Connects to the cluster that RAY_ADDRESS names or this process has joined, else starts one here and ends it in
    `close`. The store's folder must be one that all nodes see.
    """

    def __init__(self, function: Callable[[Any], Any], workers: int) -> None:
        try:
            import ray  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise IngestError("executor ray must be installed, got no module ray; pip install 'dyadlm[ray]'") from None
        self._ray: Any = ray
        self._is_mine = not ray.is_initialized()
        if self._is_mine:
            start(ray, workers)
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._remote = self._ray.remote(max_retries=MAX_TRIES - 1)(attempt)
        self._function = function
        self._jobs: dict[Any, int] = {}

    def submit(self, index: int, task: Any) -> None:
        """Add a task."""
        self._jobs[self._remote.remote(self._function, task)] = index

    def collect(self, seconds: float) -> list[tuple[int, Any]]:
        """(index, result or Failure) of tasks that are done, waiting up to some seconds for one."""
        if not self._jobs:
            time.sleep(seconds)
            return []
        done, _ = self._ray.wait(list(self._jobs), num_returns=1, timeout=seconds, fetch_local=True)
        return [(self._jobs.pop(reference), self._outcome(reference)) for reference in done]

    def _outcome(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            # Before the function was called: its module is not on the node, say.
            return Failure(IngestError(str(error.cause).partition("\n")[0]), 1)
        except self._ray.exceptions.RayError:
            return killed(MAX_TRIES)

    def close(self) -> None:
        """Cancel what is not done, and end a cluster that was started here."""
        for reference in self._jobs:
            self._ray.cancel(reference, force=True)
        if self._is_mine:
            self._ray.shutdown()


def start(ray: Any, workers: int) -> None:
    """Join the cluster of RAY_ADDRESS, or start one of this machine."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if "RAY_ADDRESS" not in os.environ:
        options |= {"num_cpus": workers or None, "include_dashboard": False, "object_store_memory": 100_000_000}
        options["runtime_env"] = {"env_vars": {"PYTHONPATH": path}}
    try:
        ray.init(**options)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise IngestError(f"Ray must start here, or answer at RAY_ADDRESS, got {reason}; see ray status") from error
