"""What is there of a run is shown, and what is not is said."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from evaluation.report.metric_rows import bucket_of, points
from evaluation.report.page import make_report
from evaluation.report.places import Subjects
from evaluation.report.run_record import RunRecord, read_run

pytestmark = pytest.mark.usefixtures("quick_plots")


def test_a_whole_run_has_nothing_to_say(tmp_path, make_run, tokenizer):
    record = read_run(make_run(tmp_path / "run", 40), "run")
    assert record.notes == []
    assert [row["step"] for row in record.steps] == list(range(1, 41))
    assert [row["step"] for row in record.evaluations] == [10, 20, 30, 40]
    assert record.buckets == ["64p", "64", "128", "256"]
    assert record.fingerprint == tokenizer.fingerprint and record.vocab_size == tokenizer.vocab_size
    assert record.settings["train.num_steps"] == 40 and record.settings["model.dim"] == 32
    assert record.last["step"] == 40 and record.closing["sample"].startswith("def f")


def test_a_run_that_was_killed_while_it_wrote_keeps_all_but_its_last_line(tmp_path, make_run):
    folder = make_run(tmp_path / "run", 30, evaluate_every=0, is_killed=True)
    path = folder / "metrics.jsonl"
    path.write_text(path.read_text()[:-20])
    record = read_run(folder, "run")
    assert len(record.steps) == 29
    assert record.notes == [
        "The last line of metrics.jsonl was cut short and is left out.",
        "There is no summary.json, which a run writes when it ends: speeds are medians over logged steps.",
        "The run is not finished: its last row is of step 29 of 30.",
        "There was no held-out evaluation.",
    ]


def test_damage_in_the_middle_is_told_by_its_line(tmp_path, make_run):
    folder = make_run(tmp_path / "run", 30)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join([*lines[:7], "{broken", *lines[8:]]))
    record = read_run(folder, "run")
    assert len(record.steps) == 7
    assert "metrics.jsonl is damaged in line 8: it and what follows are left out." in record.notes


def test_lines_that_are_no_rows_and_losses_that_are_no_numbers_are_left_out(tmp_path, make_run):
    folder = make_run(tmp_path / "run", 4)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[1]["loss"] = float("nan")
    lines = ["17", '"text"', '{"step": 1}', *map(json.dumps, rows)]
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    record = read_run(folder, "run")
    assert len(record.steps) == 4
    x, y = points(record.steps, "step", "loss")
    assert x.tolist() == [1, 3, 4] and np.isfinite(y).all()


@pytest.mark.parametrize("missing", ["config.yaml", "metrics.jsonl", "summary.json", "tokenizer"])
def test_each_part_may_be_missing(tmp_path, make_run, missing):
    folder = make_run(tmp_path / "run", 4, evaluate_every=2)
    place = folder / missing
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    record = read_run(folder, "run")
    assert len(record.notes) >= 1 and any(missing.split(".")[0] in note for note in record.notes)
    assert sections_of(record)[0] == "Run"


def test_an_empty_run_is_a_page_with_a_sentence(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    record = read_run(tmp_path, "run")
    assert "No step was logged: there are no curves." in record.notes
    assert record.last == {} and record.buckets == []
    assert sections_of(record) == ["Run"]


def sections_of(record: RunRecord) -> list[str]:
    return [section.title for section in make_report(Subjects([record], {}))]


def test_buckets_of_rows_are_called_as_in_metrics(tmp_path: Path):
    assert bucket_of({"length": 64, "packed": True}) == "64p"
    assert bucket_of({"length": 64}) == "64"


def test_a_tokenizer_that_was_replaced_is_said_to_be(tmp_path, make_run, tokenizer):
    run = make_run(tmp_path / "run", 20)
    fingerprints = {4: "0", 12: tokenizer.fingerprint}
    for step, fingerprint in fingerprints.items():
        (run / "checkpoints" / str(step) / "position").mkdir(parents=True)
        position = json.dumps({"step": step, "tokenizer": fingerprint})
        (run / "checkpoints" / str(step) / "position" / "metadata").write_text(position)
    (run / "checkpoints" / "16.tmp" / "position").mkdir(parents=True)
    (run / "checkpoints" / "16.tmp" / "position" / "metadata").write_text("{")
    assert not any("replaced" in note for note in read_run(run, "run").notes)
    shutil.rmtree(run / "checkpoints" / "12")
    assert "tokenizer/ is not that of the checkpoints: it was replaced, " in " ".join(read_run(run, "run").notes)
