import itertools
import json
import shlex
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from dataservice import Bucket
from training import loop as loop_module
from training.errors import NonFiniteError
from training.loop import Loop
from training.metrics import MetricsLog, read_rows
from training.optimizers.config import OptimizerConfig
from training.phases import Phases
from training.profiling import Profile
from training.settings import TrainConfig
from training.signals import StopRequest
from training.summary import summary_table

LENGTH, ROWS = 4, 2
PLAIN = Bucket(LENGTH, False)
FLOPS_PER_TOKEN = 10.0


def metrics_of(loss: float, gradient_norm: float = 1.0) -> dict[str, jax.Array]:
    finite = float(np.isfinite(loss))
    values = {"loss": loss, "gradient_norm": gradient_norm, "count": 6.0, "finite": finite}
    return {name: jnp.float32(value) for name, value in values.items()}


@pytest.fixture
def loop_of(tmp_path):
    """make(losses, ...) -> a Loop whose step n gives the nth loss, and what it showed as progress."""

    def make(losses, *, call=None, save=None, evaluate=None, **settings) -> tuple[Loop, list]:
        metrics = iter([metrics_of(loss) for loss in losses])
        recipe: Any = SimpleNamespace(
            mesh=model.make_mesh(),
            tokens_per_step=LENGTH * ROWS,
            token_dtype=np.dtype(np.uint16),
            learning_rate=lambda step: 0.5,
            optimizer_config=OptimizerConfig(),
        )
        config = TrainConfig(**{"log_every": 1, "evaluate_every": 0, "profile_steps": (), **settings})
        step: Any = SimpleNamespace(
            call=call or (lambda state, arrays, rate: (state, next(metrics))), flops_per_token=FLOPS_PER_TOKEN
        )
        notes, no_evaluation = [], cast(Any, SimpleNamespace(batches=[]))
        loop = Loop(
            recipe,
            config,
            len(losses),
            {PLAIN: step},
            MetricsLog(tmp_path, restored_step=0),
            lambda *_, note="": notes.append(note),
            save or (lambda *_: None),
            evaluate or no_evaluation,
            Phases(),
            Profile(tmp_path, config),
        )
        return loop, notes

    return make


def run(loop: Loop) -> None:
    arrays = {"inputs": np.zeros((ROWS, LENGTH), np.uint16), "targets": np.zeros((ROWS, LENGTH), np.uint16)}
    weights = {"weights": np.ones(ROWS, np.float32)}
    batches = ({"step": step, "length": LENGTH, "packed": False, **arrays, **weights} for step in itertools.count())
    try:
        loop.run({}, batches, 0, 0, StopRequest())
    finally:
        loop.log.close()


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the loop sees, one reading after another."""

    def tick(times):
        readings = iter(times)
        monkeypatch.setattr(loop_module, "time", SimpleNamespace(perf_counter=lambda: next(readings)))

    return tick


def test_rows_and_progress_say_how_long_a_step_waited_and_what_it_used_of_the_peak(loop_of, clock, tmp_path):
    # Start; before and after the wait; result; start after saving.
    clock([0.0, 10.0, 13.5, 20.0, 20.0])
    loop, notes = loop_of([2.0], peak_flops=8.0)
    run(loop)
    (row,) = read_rows(tmp_path / "metrics.jsonl")
    assert row["data_wait"] == 3.5
    assert row["tokens_per_second"] == 6 / 20
    assert row["mfu"] == FLOPS_PER_TOKEN * LENGTH * ROWS / 20 / (8.0 * jax.device_count())
    assert row["process_memory_mib"] > 1
    assert notes[-1] == "loss 2.000, length 4, 0 tokens/s, MFU 50.0%, waited 3.500 s"


def test_implicit_transfers_are_refused_in_steps_and_evaluations_but_not_in_saves(loop_of):
    on_device = jnp.ones(3)

    def send(*_):
        return on_device + np.ones(3)

    loop, _ = loop_of([2.0], save=send)
    run(loop)
    loop, _ = loop_of([2.0], call=lambda state, arrays, rate: (state, {"loss": send()}))
    with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device transfer"):
        run(loop)

    class Sends:
        batches = (1,)

        def __call__(self, *_):
            send()

    loop, _ = loop_of([2.0], evaluate=Sends())
    with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device transfer"):
        run(loop)


def test_the_phase_names_what_the_loop_does(loop_of):
    seen, loops, metrics = [], [], metrics_of(2.0)

    def look(*_):
        seen.append(str(loops[0].phases.current))

    class Looks:
        batches = (1,)
        __call__ = look

    def step(state, arrays, rate):
        look()
        return state, metrics

    loop, _ = loop_of([2.0] * 2, call=step, save=look, evaluate=Looks(), checkpoint_every=1)
    loops.append(loop)
    run(loop)
    assert seen == [
        "in step 1 of length 4",
        "saving step 1",
        "in step 2 of length 4",
        "saving step 2",
        "evaluating step 2",
    ]


def test_a_spike_is_printed_and_its_row_logged_whatever_log_every_says(loop_of, capsys, tmp_path):
    loop, _ = loop_of([4.0] * 8 + [9.0] + [4.0] * 3, spike_window=8, log_every=100)
    run(loop)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "spike" in line]
    assert line == (
        "spike at step 9 (length 4): loss 9 (usually 4 +- 0.04); "
        f"rows: python -m training show {shlex.quote(str(tmp_path))} --step 9"
    )
    spike, last = read_rows(tmp_path / "metrics.jsonl")
    assert spike["step"] == 9 and spike["spike"] is True and spike["loss"] == 9.0
    assert last["step"] == 12 and "spike" not in last
    (kept,) = loop.summary.as_json(loop.phases.seconds())["spikes"]
    assert (kept["step"], kept["bucket"], kept["loss"]) == (9, "4", 9.0)


def test_steps_to_trace_that_never_come_are_told_at_the_start(loop_of, capsys):
    loop, _ = loop_of([2.0], profile_steps=(5, 6))
    run(loop)
    assert "train.profile_steps are [5, 6], this start takes 1 to 1" in capsys.readouterr().out


def test_a_resumed_run_knows_what_was_usual(loop_of, capsys):
    loop, _ = loop_of([9.0], spike_window=8)
    for step in range(8):
        row = {"step": step, "seconds": 0.0, "length": 4, "packed": False, "loss": 4.0, "gradient_norm": 1.0}
        loop.log.rows.append(row)
    run(loop)
    assert "spike at step 1" in capsys.readouterr().out


def test_steps_that_are_not_finite_are_logged_as_skipped_until_there_are_too_many(loop_of, capsys, tmp_path):
    nan = float("nan")
    loop, _ = loop_of([1.0, nan, 1.0, nan, nan, 1.0], max_bad_steps=2, log_every=100)
    with pytest.raises(NonFiniteError, match=r"got 2 steps in a row that were not, the last at step 5 \(length 4\)"):
        run(loop)
    assert [(row["step"], row["skipped"]) for row in read_rows(tmp_path / "metrics.jsonl")] == [
        (2, True),
        (4, True),
        (5, True),
    ]
    assert capsys.readouterr().out.count("its loss or gradient is not finite") == 3
    assert loop.summary.skipped_steps == 3


def test_summary_adds_up(loop_of, clock):
    clock(map(float, itertools.count()))  # so every wait takes 1 s
    losses = [float(loss) for loss in range(20, 0, -1)]
    loop, _ = loop_of(losses, peak_flops=5.0)
    run(loop)
    summary = loop.summary.as_json(loop.phases.seconds())
    (bucket,) = summary["buckets"].values()
    assert {**bucket, "data_wait_share_of_steps": summary["overall"]["data_wait_share_of_steps"]} == summary["overall"]
    seconds = loop.log.rows[-1]["seconds"]
    assert bucket["steps"] == 20 and bucket["tokens"] == 120
    assert bucket["seconds_per_step"] == pytest.approx(seconds / 20)
    assert bucket["tokens_per_second"] == pytest.approx(120 / seconds)
    assert bucket["mfu"] == pytest.approx(20 * 80 / seconds / 5 / jax.device_count())
    assert bucket["late_loss"] == 1.5  # of the last tenth, two steps
    assert summary["overall"]["data_wait_share_of_steps"] == pytest.approx(20 / seconds)
    assert sum(summary["shares"].values()) == pytest.approx(1, abs=1e-3)
    json.dumps(summary, allow_nan=False)
    assert [len(line.split()) for line in summary_table(summary)[1:3]] == [7, 7]
