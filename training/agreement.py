"""All processes of a run must mean the same run: checked before anything is trained."""

import hashlib

import jax
import numpy as np

from training.errors import TrainingError


def check_agreement(**digests: str) -> None:
    """Compare named digests across the processes.

    Raises:
        TrainingError: on every process, naming what differs and which process differs from process 0.
    """
    if jax.process_count() == 1:
        return
    wait_for_all("agreement")
    from jax.experimental import multihost_utils

    mine = np.stack([_as_bytes(text) for text in digests.values()])
    # all: (process, digest, byte).
    gathered = np.asarray(multihost_utils.process_allgather(mine))
    for index, name in enumerate(digests):
        differing = [
            process for process in range(len(gathered)) if (gathered[process, index] != gathered[0, index]).any()
        ]
        if differing:
            raise TrainingError(
                f"{name} must be the same on every process, got another on process {differing[0]} than on process 0; "
                "start all processes with the same config, store and tokenizer"
            )


def sum_over_processes(counts: np.ndarray) -> np.ndarray:
    """int64: the sum of the counts (each below 2^31) that the processes hold of their own parts."""
    if jax.process_count() == 1:
        return counts
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(counts.astype(np.int32)), np.int64).sum(axis=0)


def wait_for_all(name: str) -> None:
    """Wait until every process is here, for up to a day.

    By the coordinator, not by a collective: gloo gives up after 30 seconds, and making a tokenizer takes longer.
    """
    import orbax.checkpoint as ocp

    ocp.multihost.get_barrier_sync_fn()(key=name, timeout_ms=24 * 3600 * 1000)


def _as_bytes(text: str) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)
