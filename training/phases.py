"""What a run is doing at the moment, since when, and how long it has done each kind of thing."""

import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

_STEPS_REMEMBERED = 101


class Kind(StrEnum):
    """The kinds of things that a run does one after another."""

    START = "making or opening tokenizer and store"
    COMPILE = "compiling"
    RESTORE = "restoring or making the state"
    STEP = "in step"
    DATA = "waiting for data"
    EVALUATE = "evaluating"
    SAVE = "saving"
    TRACE = "starting or writing a trace"
    CLOSE = "closing the run"


class Phase(NamedTuple):
    """One thing that a run is doing."""

    kind: Kind
    detail: str
    """Which step, batch and so on."""
    since: float
    """Seconds of the clock at which it began."""

    def __str__(self) -> str:
        return f"{self.kind} {self.detail}".rstrip()


class Phases:
    """The phase that a run is in; written by the thread that trains, read by any.

    Whatever enters a phase gives a sign of life: a phase that lasts is one in which nothing has come forward since.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._asked_for_documents = -1.0
        self._step_seconds: deque[float] = deque(maxlen=_STEPS_REMEMBERED)
        self._seconds: defaultdict[Kind, float] = defaultdict(float)
        self.current = Phase(Kind.START, "", clock())

    @property
    def elapsed(self) -> float:
        """Seconds that the current phase has lasted."""
        return self._clock() - self.current.since

    @property
    def waits_for_documents(self) -> bool:
        """Whether the wait for data is one for documents that are still being made, as far as the loader has told."""
        return self.current.kind == Kind.DATA and self._asked_for_documents >= self.current.since

    @property
    def median_step_seconds(self) -> float:
        """Of the last steps; 0 before the first one."""
        steps = list(self._step_seconds)
        return statistics.median(steps) if steps else 0.0

    def enter(self, kind: Kind, detail: str = "") -> None:
        """Leave the current phase for another (or for more of the same)."""
        last, now = self.current, self._clock()
        self._seconds[last.kind] += now - last.since
        self.current = Phase(kind, detail, now)

    @contextmanager
    def during(self, kind: Kind, detail: str = "") -> Iterator[None]:
        """Be in a phase within the block, and after it in the one before."""
        outer = self.current
        self.enter(kind, detail)
        try:
            yield
        finally:
            self.enter(outer.kind, outer.detail)

    def ask_for_documents(self) -> None:
        """Tell that the loader lives and waits for documents (from any thread)."""
        self._asked_for_documents = self._clock()

    def took_step(self, seconds: float) -> None:
        """Tell how long a step took."""
        self._step_seconds.append(seconds)

    def seconds(self) -> dict[Kind, float]:
        """Seconds spent in each kind of phase so far."""
        return {**self._seconds, self.current.kind: self._seconds.get(self.current.kind, 0.0) + self.elapsed}
