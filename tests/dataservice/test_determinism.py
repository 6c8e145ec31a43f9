"""Hash seed, number of workers, batches made ahead and the order in which folders are listed make no difference."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from dataservice.config import SEQUENCES

PROGRAM = Path(__file__).with_name("shuffled_listing.py")
# PYTHONHASHSEED, seed of the order, workers, batches made ahead
CIRCUMSTANCES = [("0", "1", "1", "0"), ("1", "2", "2", "2")]


@pytest.fixture
def documents(tmp_path) -> Path:
    """Source files in folders of several repositories, and JSON lines in nested folders."""
    draw, folder = random.Random(0), tmp_path / "documents"
    for number in range(30):
        path = folder / f"code/repository{number % 7}/{'ab'[number % 2]}/file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the " * draw.randrange(1, 40) + f"# {number}")
    for number in range(4):
        path = folder / f"lines/{'xy'[number % 2]}/part{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (
            json.dumps({"text": f"{number} {row} " * draw.randrange(1, 9), "repo": f"r{row % 5}"}) for row in range(9)
        )
        path.write_text("\n".join(lines))
    return folder


@pytest.mark.slow
def test_stores_batches_and_states_depend_on_documents_and_settings_alone(documents, tmp_path):
    processes = []
    for number, (hash_seed, *arguments) in enumerate(CIRCUMSTANCES):
        command = [sys.executable, str(PROGRAM), str(documents), str(tmp_path / f"store-{number}"), *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    first, *others = (json.loads(process.communicate()[0]) for process in processes)
    assert set(first) == {"files", *SEQUENCES} and len(first["files"]) > 20
    assert len({first[kind][0] for kind in SEQUENCES}) == len(SEQUENCES)
    for other in others:
        assert other == first
