"""The training loop: batches in, steps out, rows of metrics and checkpoints on the way."""

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

from dataservice import Bucket
from training.compilation import CompiledStep
from training.devices import peak_flops
from training.errors import NonFiniteError
from training.heldout import Evaluator
from training.metrics import MetricsLog, bucket_name
from training.phases import Kind, Phases
from training.placement import place_step
from training.profiling import Profile
from training.records import StepRecord
from training.settings import TrainConfig
from training.signals import StopRequest
from training.spikes import SpikeDetector
from training.step import Recipe, State
from training.summary import Summary, peak_memory
from training.watchdog import explain_lost_processes


class StepResult(NamedTuple):
    """A dispatched step whose metrics are still on the device."""

    step: int
    bucket: Bucket
    metrics: dict[str, jax.Array]
    data_wait: float


@dataclass
class Loop:
    """Takes steps; the host stays one step ahead of the device, so metrics are read when the next step is under way."""

    recipe: Recipe
    config: TrainConfig
    num_steps: int
    steps: dict[Bucket, CompiledStep]
    log: MetricsLog
    progress: Callable[..., None]
    save: Callable[[State, int, int], None]
    """(state, step, tokens): start a checkpoint."""
    evaluate: Evaluator
    phases: Phases
    profile: Profile
    check_saves: Callable[[], None] = lambda: None
    """After each step: raises when the checkpoint under way cannot be written, which the next one would tell late."""
    _pending: list[StepResult] = field(default_factory=list)
    _bad_steps: int = 0

    def __post_init__(self) -> None:
        named = self.config.peak_flops
        self._peak_flops = named * self.recipe.mesh.size if named else peak_flops(self.recipe.mesh)
        self.summary = Summary(self.num_steps, self._peak_flops)
        self._spikes = SpikeDetector(self.config.spike_window, self.config.spike_deviations)

    def run(self, state: State, batches: Iterator[dict[str, Any]], step: int, tokens: int, stop: StopRequest) -> State:
        """Train from `step` to `num_steps`, until the data ends or somebody asks to stop.

        A checkpoint comes before every evaluation; the last state is always saved, and evaluated unless asked to stop.
        """
        self.tokens, self.step, self._saved = tokens, step, step
        self._seconds = self.log.seconds
        for row in self.log.rows:
            if "loss" in row:
                self._spikes.feed(Bucket(row["length"], row["packed"]), row)
        self.phases.enter(Kind.STEP, f"{step + 1}")
        self.profile.tell_missed(step, self.num_steps)
        self.progress("train", step, self.num_steps)
        # Nothing but batches goes to the devices and nothing but metrics comes back, both asked for by name: a stray
        # value would be sent at every step.
        with jax.transfer_guard("disallow"), explain_lost_processes(self.phases):
            try:
                return self._run(state, batches, stop)
            finally:
                self.profile.stop()

    def _run(self, state: State, batches: Iterator[dict[str, Any]], stop: StopRequest) -> State:
        if (self.step or self.config.initial_weights) and self._evaluation_due(self.step):
            self._evaluate(state)
        self._clock = time.perf_counter()
        while self.step < self.num_steps and (batch := self._next_batch(batches)) is not None:
            state = self._take_step(state, batch)
            self.check_saves()
            if stop.at(self.step):
                self._save(state)
                return state
            if self._evaluation_due(self.step):
                self._evaluate(state)
            elif self.step % self.config.checkpoint_every == 0:
                self._save(state)
        if stop.signal is None:
            self._evaluate(state)
        else:
            self._save(state)
        return state

    def _next_batch(self, batches: Iterator[dict[str, Any]]) -> dict[str, Any] | None:
        start = time.perf_counter()
        with self.phases.during(Kind.DATA, f"of step {self.step + 1}"):
            batch = next(batches, None)
        self._waited = time.perf_counter() - start
        return batch

    def _evaluation_due(self, step: int) -> bool:
        every = self.config.evaluate_every
        return bool(every and step % every == 0)

    def _save(self, state: State) -> None:
        self._read_results(keep=0)
        if self._saved != self.step:
            # Orbax moves arrays in its own way.
            with self.phases.during(Kind.SAVE, f"step {self.step}"), jax.transfer_guard("allow"):
                self.log.flush()
                self.save(state, self.step, self.tokens)
            self._saved = self.step
        self._clock = time.perf_counter()

    def _evaluate(self, state: State) -> None:
        self._save(state)
        if self.evaluate.batches and not self.log.evaluated(self.step):
            with self.phases.during(Kind.EVALUATE, f"step {self.step}"):
                self.evaluate(state, self.step, self.tokens)
            self._clock = time.perf_counter()

    def _take_step(self, state: State, batch: dict[str, Any]) -> State:
        bucket, step = Bucket(batch["length"], batch["packed"]), batch["step"] + 1
        if self.profile.starts_at(step):
            self._trace(self.profile.start)
        self.phases.enter(Kind.STEP, f"{step} of length {bucket_name(bucket)}")
        with self.profile.name(step):
            placed = place_step(self.recipe, bucket, batch, batch["step"])
            state, metrics = self.steps[bucket].call(state, *placed)
        self.step = step
        self._pending.append(StepResult(step, bucket, metrics, self._waited))
        self._read_results(keep=1)
        if self.profile.stops_at(step):
            self._trace(self.profile.stop)
        return state

    def _trace(self, start_or_stop: Callable[[], None]) -> None:
        """Between two steps, whose time it does not touch."""
        self._read_results(keep=0)
        with self.phases.during(Kind.TRACE):
            start_or_stop()
        self._clock = time.perf_counter()

    def _read_results(self, *, keep: int) -> None:
        """Wait for all but the last `keep` steps and report them."""
        while len(self._pending) > keep:
            result = self._pending.pop(0)
            self.phases.enter(Kind.STEP, f"{result.step} of length {bucket_name(result.bucket)}")
            values = {name: float(value) for name, value in jax.device_get(result.metrics).items()}
            now = time.perf_counter()
            elapsed, self._clock = now - self._clock, now
            self._report(self._record(result, values, elapsed))

    def _record(self, result: StepResult, values: dict[str, float], elapsed: float) -> StepRecord:
        is_finite, count = bool(values.pop("finite")), round(values.pop("count"))
        spikes = self._spikes.feed(result.bucket, values) if is_finite else []
        if spikes:
            print(f"spike at {_where(result)}: {', '.join(map(str, spikes))}; {self._rows_of(result.step)}")
        return StepRecord(
            step=result.step,
            bucket=result.bucket,
            values=values,
            is_finite=is_finite,
            count=count,
            seconds=elapsed,
            data_wait=result.data_wait,
            flops=self.steps[result.bucket].flops_per_token * self.recipe.tokens_per_step,
            has_spike=bool(spikes),
        )

    def _report(self, record: StepRecord) -> None:
        self._seconds += record.seconds
        self.tokens += record.count
        self.phases.took_step(record.seconds)
        self.summary.add(record)
        is_due = record.step % self.config.log_every == 0 or record.step == self.num_steps
        if is_due or record.has_spike or not record.is_finite:
            start = {"step": record.step, "tokens": self.tokens, "seconds": round(self._seconds, 3)}
            self.log.write(start | record.row(self._peak_flops) | peak_memory())
        self.progress("train", record.step, self.num_steps, note=record.note(self._peak_flops))
        self._check_finite(record)

    def _check_finite(self, record: StepRecord) -> None:
        if record.is_finite:
            self._bad_steps = 0
            return
        self._bad_steps += 1
        print(f"skipped {_where(record)}: its loss or gradient is not finite; {self._rows_of(record.step)}")
        if self._bad_steps >= self.config.max_bad_steps:
            raise NonFiniteError(
                f"loss and gradient must be finite, got {self._bad_steps} steps in a row that were not, the last at "
                f"{_where(record)}; lower optimizer.learning_rate, or look at the {self._rows_of(record.step)}"
            )

    def _rows_of(self, step: int) -> str:
        """How to see what a step was trained on."""
        return f"rows: python -m training show {shlex.quote(str(self.log.folder))} --step {step}"


def _where(at: StepResult | StepRecord) -> str:
    return f"step {at.step} (length {bucket_name(at.bucket)})"
