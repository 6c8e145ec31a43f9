import json

import pytest

from training.metrics import MetricsLog, read_rows


def row(step, **values):
    return {"step": step, "tokens": step * 10, "seconds": float(step), **values}


@pytest.fixture
def log_of(tmp_path):
    def open_log(restored_step=0, **options):
        return MetricsLog(tmp_path, restored_step=restored_step, **options)

    return open_log


def test_resumed_record_is_that_of_an_unbroken_run(log_of, tmp_path):
    unbroken = [row(step, loss=1 / step) for step in range(1, 11)]
    first = log_of()
    for each in unbroken[:8]:
        first.write(each)
    first.close()  # killed here: steps 6 to 8 came after the checkpoint of step 5
    second = log_of(restored_step=5)
    assert second.seconds == 5.0
    for each in unbroken[5:]:
        second.write(each)
    second.close()
    assert list(read_rows(tmp_path / "metrics.jsonl")) == unbroken


def test_line_cut_short_by_a_kill_is_left_out(log_of, tmp_path):
    log = log_of()
    log.write(row(1, loss=2.0))
    log.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row(2, loss=1.0))[:20])
    log_of(restored_step=2).close()
    assert list(read_rows(tmp_path / "metrics.jsonl")) == [row(1, loss=2.0)]


def test_closing_row_is_dropped_when_the_run_goes_on(log_of, tmp_path):
    log = log_of()
    log.write(row(4, held_out_loss=1.0))
    log.write(row(4, finished=True))
    log.close()
    again = log_of(restored_step=4)
    assert again.evaluated(4)
    assert not again.evaluated(3)
    again.close()
    assert list(read_rows(tmp_path / "metrics.jsonl")) == [row(4, held_out_loss=1.0)]


def test_other_processes_write_nothing(log_of, tmp_path):
    log = log_of(writes=False)
    log.write(row(1, held_out_loss=1.0))
    log.close()
    assert log.evaluated(1)
    assert list(tmp_path.iterdir()) == []
