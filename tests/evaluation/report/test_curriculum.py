"""Lengths of all steps, also of those that were not logged; and which steps speeds are about."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataservice import DataConfig, TokenFormat, open_schedule, write_store
from evaluation.report.run_record import read_run
from evaluation.report.run_sections import overview_section
from evaluation.report.run_speed import curriculum_section, speed_section
from training.config import Config
from training.run import Run

pytestmark = pytest.mark.usefixtures("quick_plots")

NUM_STEPS, LOG_EVERY = 25, 10


@pytest.fixture
def make_store(tokenizer, tmp_path):
    def make(name: str, seed: int):
        draw = np.random.default_rng(seed)
        shards = {f"s{n}": [draw.integers(32, 127, size).tolist() for size in draw.integers(1, 90, 20)] for n in "ab"}
        tokenizer.save(tmp_path / name / "tokenizer")
        return write_store(tmp_path / name, shards, TokenFormat.of(tokenizer))

    return make


@pytest.fixture
def run(make_store, tokenizer, tmp_path) -> tuple[Path, list[str]]:
    """A run of which every 10th step is logged, and the length of each of its steps."""
    store = make_store("store", 0)
    data = DataConfig(
        store=str(store.path), min_length=4, max_length=32, tokens_per_step=64, curriculum="grow-p2", cycles=2
    )
    Run(tmp_path / "run").begin(Config(data=data), tokenizer)
    schedule, lengths, rows = open_schedule(store, data), [], []
    for step in range(1, NUM_STEPS + 1):
        position = schedule.locate(step - 1)
        assert position is not None
        length, packed = schedule.buckets[position.bucket]
        lengths.append(f"{length}{'p' * packed}")
        if step % LOG_EVERY == 0 or step == NUM_STEPS:
            row = {"step": step, "tokens": 64 * step, "seconds": 1.0 * step, "length": length, "packed": packed}
            rows.append(row | {"loss": 2.0, "tokens_per_second": 1000.0 + step})
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path / "run", lengths


def there(found: Any) -> Any:
    assert found is not None
    return found


def titles_of(section) -> list[str]:
    return [re.findall(r"<title>([^|<]*)", plot)[0].strip() for plot in section.plots]


def test_the_length_of_every_step_is_shown_where_the_store_is_at_hand(run):
    folder, lengths = run
    record = read_run(folder, "run")
    names, steps, rows, is_whole = there(record.curriculum)
    assert is_whole and steps.tolist() == list(range(1, NUM_STEPS + 1))
    assert [names[row] for row in rows] == lengths and len(names) == len(set(lengths)) > len(record.buckets)
    section = there(curriculum_section(record, ""))
    assert titles_of(section) == ["Length of each step", "Share of the steps by length"]
    assert "logged" not in " ".join(section.notes)


def without_store(folder: Path) -> None:
    folder.parent.joinpath("store").rename(folder.parent / "elsewhere")


def without_settings(folder: Path) -> None:
    (folder / "config.yaml").write_text("data: [", encoding="utf-8")


def served(folder: Path) -> None:
    path = folder / "config.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"store: .*", "store: grpc://127.0.0.1:9", text, count=1), encoding="utf-8")


@pytest.mark.parametrize("spoil", [without_store, without_settings, served])
def test_where_it_is_not_the_logged_steps_are_shown_and_called_that(run, spoil):
    folder, lengths = run
    spoil(folder)
    check_logged(read_run(folder, "run"), lengths)


def test_another_store_is_not_believed(run, make_store):
    folder, lengths = run
    path = folder / "config.yaml"
    text = path.read_text(encoding="utf-8")
    for seed in range(1, 4):
        other = make_store(f"other{seed}", seed)
        path.write_text(re.sub(r"store: .*", f"store: {other.path}", text, count=1), encoding="utf-8")
        record = read_run(folder, "run")
        if not there(record.curriculum).is_whole:
            return check_logged(record, lengths)
    raise AssertionError("no other store gave the logged steps other lengths")


def check_logged(record, lengths: list[str]) -> None:
    names, steps, rows, is_whole = there(record.curriculum)
    assert not is_whole and steps.tolist() == [10, 20, 25]
    assert [names[row] for row in rows] == [lengths[step - 1] for step in steps]
    section = there(curriculum_section(record, ""))
    assert titles_of(section) == ["Length of each logged step", "Share of the logged steps by length"]
    assert "The steps between are not shown" in " ".join(section.notes)


def test_a_run_that_logs_every_step_needs_no_store(tmp_path, make_run):
    record = read_run(make_run(tmp_path / "run", 30), "run")
    assert there(record.curriculum).is_whole and len(there(record.curriculum).steps) == 30


def test_speeds_after_a_resume_are_of_all_starts_and_the_last_one_is_named(tmp_path, make_run):
    folder = make_run(tmp_path / "run", 30)
    whole = there(speed_section(read_run(folder, "run"), ""))
    assert titles_of(whole)[:2] == ["Tokens a second by length", "MFU by length"]
    assert [table.caption for table in whole.tables] == ["By length, all steps"]

    path = folder / "summary.json"
    summary = json.loads(path.read_text(encoding="utf-8"))
    summary |= {"first_step": 21, "buckets": {"256": summary["buckets"]["256"]}}
    path.write_text(json.dumps(summary), encoding="utf-8")
    record = read_run(folder, "run")
    resumed = there(speed_section(record, ""))
    assert titles_of(resumed)[0] == "Tokens a second by length (median logged step)"
    assert "Where the time of the last start went, steps 21 to 30 alone" in titles_of(resumed)
    every, last = resumed.tables
    assert every.caption == "By length, logged steps" and last.caption == "By length, steps 21 to 30 alone"
    assert [row[0] for row in every.rows] == ["64p", "64", "128", "256"] and [row[0] for row in last.rows] == ["256"]
    facts = [row[0] for row in overview_section(record, "").tables[0].rows]
    assert "MFU, steps 21 to 30 alone" in facts and "MFU" not in facts
