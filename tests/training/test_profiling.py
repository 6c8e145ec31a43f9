import gzip
import json

import pytest

from training.profiling import Profile
from training.settings import TrainConfig


@pytest.mark.parametrize("steps", [(3,), (5, 4), (0, 4), (1, 2, 3)])
def test_a_window_is_a_first_and_a_last_step(steps):
    with pytest.raises(ValueError, match=r"profile_steps must be \[first, last\], from 1, got \["):
        TrainConfig(profile_steps=steps)


def test_a_window_is_traced_once_also_from_its_midst_and_never_after_it(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr("jax.profiler.start_trace", lambda *_, **__: calls.append("start"))
    monkeypatch.setattr("jax.profiler.stop_trace", lambda: calls.append("stop"))
    for first_step in (1, 4, 6):
        profile = Profile(tmp_path, TrainConfig(profile_steps=(3, 5)))
        for step in range(first_step, 9):
            if profile.starts_at(step):
                profile.start()
            calls.append(step)
            if profile.stops_at(step):
                profile.stop()
        profile.stop()
    assert calls == [1, 2, "start", 3, 4, 5, "stop", 6, 7, 8, "start", 4, 5, "stop", 6, 7, 8, 6, 7, 8]


@pytest.mark.parametrize(
    ("window", "step", "num_steps", "said"),
    [
        ((50, 60), 0, 10, "no steps are traced: train.profile_steps are [50, 60], this start takes 1 to 10\n"),
        ((11, 12), 0, 10, "no steps are traced: train.profile_steps are [11, 12], this start takes 1 to 10\n"),
        ((3, 5), 5, 10, "no steps are traced: train.profile_steps are [3, 5], this start takes 6 to 10\n"),
        ((3, 5), 4, 10, ""),
        ((10, 12), 0, 10, ""),
        ((3, 5), 10, 10, ""),
        ((), 0, 10, ""),
    ],
)
def test_a_window_that_a_start_does_not_come_to_is_told(tmp_path, capsys, window, step, num_steps, said):
    Profile(tmp_path, TrainConfig(profile_steps=window)).tell_missed(step, num_steps)
    assert capsys.readouterr().out == said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_traced_run_has_the_bits_of_one_that_is_not(trainer, read_state):
    few = ["train.num_steps=6", "optimizer.schedule=constant", "train.evaluate_every=0"]
    trainer.train("train.run=plain", *few)
    output = trainer.train("train.run=traced", *few, "train.profile_steps=[3,4]")
    assert "wrote the trace of steps to traced/profile" in output
    (trace,) = (trainer.folder / "traced" / "profile").glob("plugins/profile/*/perfetto_trace.json.gz")
    assert list(trace.parent.glob("*.xplane.pb"))
    names = {event.get("name") for event in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]}
    assert "train" in names
    assert read_state(trainer.folder / "plain", 6) == read_state(trainer.folder / "traced", 6)
