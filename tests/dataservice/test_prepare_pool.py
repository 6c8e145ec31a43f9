import os
import signal
from pathlib import Path

import pytest

from dataservice.errors import IngestError
from dataservice.prepare_pool import run_in_order


def die_once(marker: str) -> str:
    """A task whose worker is killed, unless that happened before."""
    path = Path(marker)
    if path.suffix == ".deadly" and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return path.stem


def die(marker: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_costs_only_its_task(tmp_path):
    tasks = [str(tmp_path / name) for name in ("a", "b.deadly", "c", "d")]
    groups = list(run_in_order(die_once, tasks, 2))
    assert [result for group in groups for result in group] == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_workers_that_keep_being_killed_end_the_run(tmp_path):
    with pytest.raises(IngestError, match="3 killed in a row"):
        list(run_in_order(die, ["task"], 2))
