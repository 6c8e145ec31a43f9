import pytest

from training.phases import Kind, Phases
from training.watchdog import Limits


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def phases(clock):
    return Phases(clock)


def test_every_second_belongs_to_one_kind(clock, phases):
    clock.now = 3
    phases.enter(Kind.COMPILE)
    clock.now = 10
    phases.enter(Kind.STEP, "1")
    clock.now = 11
    with phases.during(Kind.DATA, "of step 2"):
        clock.now = 15
        assert str(phases.current) == "waiting for data of step 2" and phases.elapsed == 4
    clock.now = 16
    assert str(phases.current) == "in step 1" and phases.elapsed == 1
    assert phases.seconds() == {Kind.START: 3, Kind.COMPILE: 7, Kind.STEP: 2, Kind.DATA: 4}
    assert sum(phases.seconds().values()) == clock.now


def test_phase_before_comes_back_after_a_fault(phases):
    with pytest.raises(OSError), phases.during(Kind.SAVE):
        raise OSError
    assert phases.current.kind == Kind.START


def test_limits_follow_the_kind_and_the_median_step(clock, phases):
    limits = Limits(seconds=5, step_factor=20, long_seconds=60)
    assert limits.of(phases) == 0
    for kind in (Kind.COMPILE, Kind.RESTORE, Kind.SAVE, Kind.TRACE, Kind.CLOSE):
        phases.enter(kind)
        assert limits.of(phases) == 60
    for kind in (Kind.STEP, Kind.DATA, Kind.EVALUATE):
        phases.enter(kind)
        assert limits.of(phases) == 5
    for seconds in (0.1, 2.0, 90.0):
        phases.took_step(seconds)
    assert limits.of(phases) == 40
    assert limits._replace(seconds=0).of(phases) == 0


def test_documents_in_the_making_are_waited_for_longer(clock, phases):
    limits = Limits(seconds=5, step_factor=20, long_seconds=60)
    phases.ask_for_documents()
    clock.now = 1
    phases.enter(Kind.DATA)
    assert limits.of(phases) == 5  # asked for an earlier batch
    phases.ask_for_documents()
    assert limits.of(phases) == 60
    clock.now = 2
    phases.enter(Kind.STEP)
    assert limits.of(phases) == 5
