import contextlib
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from training.errors import ConfigError, TrainingError
from training.metrics import MetricsLog
from training.settings import TrainConfig
from training.trackers import TensorBoard, check_tracker, numbers, open_trackers, run_id

ROOT = Path(__file__).parents[2]


def row(step, **values):
    return {"step": step, "tokens": step * 10, "seconds": float(step), **values}


def test_every_row_goes_to_every_tracker(tmp_path):
    class Kept:
        def __init__(self):
            self.said = []

        def log(self, row):
            self.said.append(row)

        def flush(self):
            self.said.append("flush")

        def close(self):
            self.said.append("close")

    trackers = [Kept(), Kept()]
    log = MetricsLog(tmp_path, restored_step=0, trackers=trackers)
    log.write(row(1, loss=2.0))
    log.close()
    assert [kept.said for kept in trackers] == [[row(1, loss=2.0), "flush", "close"]] * 2


def test_numbers_are_what_trackers_can_draw():
    assert numbers(row(3, loss=2.5, packed=False, sample="text")) == {"tokens": 30, "seconds": 3.0, "loss": 2.5}


def test_tensorboard_events_hold_every_number(tmp_path):
    from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue] (made at run time)

    tracker = TensorBoard(tmp_path, 0)
    tracker.log(row(1, loss=2.5, packed=False, sample="text"))
    tracker.close()
    (path,) = tmp_path.glob("events.*")
    events = [Event.FromString(data) for data in tfrecords(path.read_bytes())]
    values = {value.tag: value.simple_value for event in events for value in event.summary.value}
    assert values == {"tokens": 10.0, "seconds": 1.0, "loss": 2.5}


def tfrecords(data: bytes):
    """Records of the TFRecord format: length u64, its crc u32, payload, its crc u32."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        yield data[at + 12 : at + 12 + length]
        at += 16 + length


def test_a_run_keeps_its_name_with_the_tracker(tmp_path):
    first, other = tmp_path / "run", tmp_path / "other"
    first.mkdir()
    other.mkdir()
    assert run_id(first) == run_id(first)
    assert run_id(first).startswith("run-")
    moved = first.rename(tmp_path / "moved")
    assert run_id(moved).startswith("run-")
    assert run_id(other) != run_id(moved)


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_tracker_that_is_not_installed_is_one_line_with_its_extra(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=rf"train.track must name .* got {name}; pip install .*\[{name}\]"):
        check_tracker(TrainConfig(track=name))
    check_tracker(TrainConfig())


def start_twice(folder: Path, name: str, **environment: str) -> None:
    """Log steps 1 to 3, then in another process, as after a resume, steps 3 to 4."""
    program = f"""
import sys
from pathlib import Path
from training.settings import TrainConfig
from training.trackers import open_trackers
first, last = map(int, sys.argv[1:])
config = TrainConfig(track={name!r}, tensorboard=False)
(tracker,) = open_trackers(Path({str(folder)!r}), config, {{"train": {{"seed": 1, "store": None}}}}, first - 1)
for step in range(first, last + 1):
    tracker.log({{"step": step, "loss": 1 / step, "packed": False}})
tracker.flush()
tracker.close()
"""
    folder.mkdir()
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder.parent), **environment}
    for steps in ("1", "3"), ("3", "4"):
        subprocess.run([sys.executable, "-c", program, *steps], check=True, cwd=folder.parent, env=variables)


@pytest.mark.slow
def test_wandb_gets_every_step_of_a_resumed_run(tmp_path):
    pytest.importorskip("wandb")
    start_twice(tmp_path / "run", "wandb", WANDB_MODE="offline")
    id = json.loads((tmp_path / "run" / "tracking.json").read_text())["id"]
    files = sorted((tmp_path / "run" / "wandb").glob(f"offline-run-*/run-{id}.wandb"))
    assert files and list(wandb_losses(files)) == [
        (1, 1.0),
        (2, 0.5),
        (3, 1 / 3),
        (3, 1 / 3),
        (4, 0.25),
    ]


def test_wandb_that_cannot_be_reached_is_one_line(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")

    def refuse(**_):
        raise wandb.errors.UsageError("api_key not configured (no-tty).")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(TrainingError, match=r"train.track=wandb must reach .* got api_key not .* run wandb login"):
        open_trackers(tmp_path, TrainConfig(track="wandb", tensorboard=False), {}, 0)


def wandb_losses(files):
    """(step, loss) of every row in small offline files.

    Such a file is a header of 7 bytes and records: crc u32, length u16, a byte that is 1 for a whole record, payload.
    """
    from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportMissingImports]

    for file in files:
        data, at = file.read_bytes(), 7
        while at < len(data):
            length = int.from_bytes(data[at + 4 : at + 6], "little")
            assert data[at + 6] == 1
            items = Record.FromString(data[at + 7 : at + 7 + length]).history.item
            values = {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
            if "loss" in values:
                yield values["step"], values["loss"]
            at += 7 + length


@pytest.mark.slow
def test_trackio_gets_every_step_of_a_resumed_run(tmp_path):
    pytest.importorskip("trackio")
    start_twice(tmp_path / "run", "trackio", TRACKIO_DIR=str(tmp_path / "trackio"))
    id = json.loads((tmp_path / "run" / "tracking.json").read_text())["id"]
    assert dict(trackio_losses(tmp_path / "trackio", id)) == {
        1: 1.0,
        2: 0.5,
        3: 1 / 3,
        4: 0.25,
    }


def trackio_losses(folder, name):
    """(step, loss) of every row in trackio's database."""
    (path,) = folder.glob("*.db")
    with contextlib.closing(sqlite3.connect(path)) as database:
        rows = database.execute("select step, metrics from metrics where run_name = ? order by id", (name,)).fetchall()
    return [(step, json.loads(metrics)["loss"]) for step, metrics in rows]
