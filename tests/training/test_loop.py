from types import SimpleNamespace
from typing import Any

from dataservice import Bucket
from training import loop as loop_module
from training.loop import Loop, StepResult


def test_rows_and_progress_say_how_long_a_step_waited_for_its_batch(monkeypatch):
    unused: Any = None
    notes = []
    loop = Loop(
        recipe=unused,
        config=SimpleNamespace(log_every=1, max_bad_steps=1),  # pyright: ignore[reportArgumentType]
        num_steps=1,
        steps={},
        log=SimpleNamespace(write=notes.append),  # pyright: ignore[reportArgumentType]
        progress=lambda *_, note: notes.append(note),
        save=unused,
        evaluate=unused,
    )
    loop.tokens, loop._seconds, loop._peak_flops, loop._clock = 0, 0.0, None, 0.0
    times = iter([10.0, 13.5, 20.0])
    monkeypatch.setattr(loop_module, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    batch = {"step": 0}
    assert loop._next_batch(iter([batch])) is batch
    metrics: Any = {"loss": 1.0, "finite": 1.0, "count": 8.0}
    loop._pending.append(StepResult(1, Bucket(4, False), metrics, loop._waited))
    loop._read_results(keep=0)
    row, note = notes
    assert row["data_wait"] == 3.5 and note.endswith("waited 3.500 s")
