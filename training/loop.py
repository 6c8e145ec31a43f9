"""The training loop: batches in, steps out, rows of metrics and checkpoints on the way."""

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
from training.metrics import MetricsLog
from training.placement import place_batch
from training.settings import TrainConfig
from training.signals import StopRequest
from training.step import Recipe, State, batch_shapes


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
    _pending: list[StepResult] = field(default_factory=list)
    _bad_steps: int = 0

    def run(self, state: State, batches: Iterator[dict[str, Any]], step: int, tokens: int, stop: StopRequest) -> State:
        """Train from `step` to `num_steps`, until the data ends or somebody asks to stop.

        A checkpoint comes before every evaluation; the last state is always saved, and evaluated unless asked to stop.
        """
        self.tokens, self.step, self._saved = tokens, step, step
        self._seconds = self.log.seconds
        self._peak_flops = peak_flops(self.recipe.mesh)
        self.progress("train", step, self.num_steps)
        if (step or self.config.initial_weights) and self._evaluation_due(step):
            self._evaluate(state)
        self._clock = time.perf_counter()
        while self.step < self.num_steps and (batch := self._next_batch(batches)) is not None:
            state = self._take_step(state, batch)
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
        batch = next(batches, None)
        self._waited = time.perf_counter() - start
        return batch

    def _evaluation_due(self, step: int) -> bool:
        every = self.config.evaluate_every
        return bool(every and step % every == 0)

    def _save(self, state: State) -> None:
        self._read_results(keep=0)
        if self._saved != self.step:
            self.log.flush()
            self.save(state, self.step, self.tokens)
            self._saved = self.step
        self._clock = time.perf_counter()

    def _evaluate(self, state: State) -> None:
        self._save(state)
        if self.evaluate.batches and not self.log.evaluated(self.step):
            self.evaluate(state, self.step, self.tokens)
            self._clock = time.perf_counter()

    def _take_step(self, state: State, batch: dict[str, Any]) -> State:
        bucket = Bucket(batch["length"], batch["packed"])
        arrays = place_batch(batch, batch_shapes(self.recipe, bucket))
        # Nothing but the batch goes to the devices: a stray host value would be sent again at every step.
        with jax.transfer_guard("disallow"):
            state, metrics = self.steps[bucket].call(state, arrays)
        self.step = batch["step"] + 1
        self._pending.append(StepResult(self.step, bucket, metrics, self._waited))
        self._read_results(keep=1)
        return state

    def _read_results(self, *, keep: int) -> None:
        """Wait for all but the last `keep` steps and log them."""
        while len(self._pending) > keep:
            result = self._pending.pop(0)
            values = {name: float(value) for name, value in jax.device_get(result.metrics).items()}
            finite = bool(values.pop("finite"))
            self._check_finite(result, finite)
            now = time.perf_counter()
            elapsed, self._clock = now - self._clock, now
            self._seconds += elapsed
            count = round(values.pop("count"))
            self.tokens += count
            if result.step % self.config.log_every == 0 or result.step == self.num_steps:
                self.log.write(self._row(result, values, finite, count, elapsed))
            name = f"{result.bucket.length}{'p' if result.bucket.packed else ''}"
            note = f"loss {values['loss']:.3f}, length {name}, {count / elapsed:,.0f} tokens/s"
            self.progress("train", result.step, self.num_steps, note=f"{note}, waited {result.data_wait:.3f} s")

    def _row(self, result: StepResult, values: dict[str, float], finite: bool, count: int, elapsed: float) -> dict:
        row: dict[str, Any] = {
            "step": result.step,
            "tokens": self.tokens,
            "seconds": round(self._seconds, 3),
            "length": result.bucket.length,
            "packed": result.bucket.packed,
            # A skipped step's loss has no place in JSON, which knows no NaN.
            **(values if finite else {"skipped": True}),
            "tokens_per_second": round(count / elapsed, 1),
            "data_wait": round(result.data_wait, 6),
        }
        if self._peak_flops:
            flops = self.steps[result.bucket].flops_per_token * self.recipe.tokens_per_step
            row["mfu"] = round(flops / elapsed / self._peak_flops, 4)
        return row

    def _check_finite(self, result: StepResult, finite: bool) -> None:
        self._bad_steps = 0 if finite else self._bad_steps + 1
        if self._bad_steps >= self.config.max_bad_steps:
            raise NonFiniteError(
                f"loss and gradient must be finite, got {self._bad_steps} steps in a row that were not, the last at "
                f"step {result.step} (length {result.bucket.length}); lower optimizer.learning_rate, or look at the "
                f"rows with python -m dataservice show STORE --step {result.step - 1}"
            )
