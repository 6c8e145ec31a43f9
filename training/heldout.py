"""Held-out loss by length and position, bits per byte, and the unigram entropy that a model must beat."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from dataservice import Bucket
from training.compilation import CompiledStep, replicated
from training.evaluation_step import position_starts
from training.metrics import MetricsLog, bucket_name
from training.phases import Kind, Phases
from training.placement import place_batch
from training.step import Recipe, State, batch_shapes, evaluated_params


class Evaluator:
    """Runs the compiled evaluation steps over the held-out batches and logs what comes out."""

    def __init__(
        self,
        recipe: Recipe,
        steps: dict[Bucket, CompiledStep],
        batches: list[dict[str, Any]],
        token_lengths: np.ndarray,
        log: MetricsLog,
        phases: Phases,
    ):
        self.batches = batches
        self._recipe, self._steps, self._log, self._phases = recipe, steps, log, phases
        self._token_lengths = jax.device_put(token_lengths.astype(np.int32), replicated(recipe))

    def __call__(self, state: State, step: int, tokens: int) -> None:
        """Evaluate the state and write a row of metrics."""
        values = average(self._bucket_sums(evaluated_params(state), batch, step) for batch in self.batches)
        self._log.write({"step": step, "tokens": tokens, "seconds": self._log.seconds, **values})
        print(f"step {step}: held-out loss {values['held_out_loss']:.4f} nats per token")

    def _bucket_sums(self, params: Any, batch: dict[str, Any], step: int) -> tuple[Bucket, dict[str, Any]]:
        bucket = Bucket(batch["length"], batch["packed"])
        self._phases.enter(Kind.EVALUATE, f"step {step}, length {bucket_name(bucket)}")
        placed = place_batch(batch, batch_shapes(self._recipe, bucket))
        return bucket, jax.device_get(self._steps[bucket].call(params, placed, self._token_lengths))


def average(results: Iterable[tuple[Bucket, dict[str, Any]]]) -> dict[str, float]:
    """Average over real targets.

    Args:
        results: of each batch its bucket and the sums over its real targets: `nll` (nats) and `count`, both [P] by the
            stretches of `position_starts`, and `bytes`.

    Returns:
        held_out_loss (nats per token), held_out_bits_per_byte, held_out_loss_LENGTH for each bucket with targets
        (LENGTHp: the bucket of packed tails), and held_out_loss_at_START for each stretch of positions within a
        sequence that starts at 0, 1, 2, 4, ... and ends before the next.
    """
    by_bucket: defaultdict[Bucket, np.ndarray] = defaultdict(lambda: np.zeros(3))
    by_start: defaultdict[int, np.ndarray] = defaultdict(lambda: np.zeros(2))
    for bucket, result in results:
        # sums_P2: (stretch, nll and count).
        sums_P2 = np.stack([result["nll"], result["count"]], axis=-1).astype(np.float64)
        by_bucket[bucket] += [*sums_P2.sum(axis=0), float(result["bytes"])]
        for start, sums in zip(position_starts(bucket.length), sums_P2, strict=True):
            by_start[int(start)] += sums
    nll, count, num_bytes = sum(by_bucket.values(), np.zeros(3))
    values = {"held_out_loss": nll / count, "held_out_bits_per_byte": nll / math.log(2) / num_bytes}
    for bucket, (nll, count, _) in sorted(by_bucket.items()):
        values[f"held_out_loss_{bucket_name(bucket)}"] = nll / count
    for start, (nll, count) in sorted(by_start.items()):
        if count:
            values[f"held_out_loss_at_{start}"] = nll / count
    return {name: float(value) for name, value in values.items()}


def count_targets(batches: Iterable[dict[str, Any]], vocab_size: int) -> np.ndarray:
    """int64[V]: how often each token is a real target of these blocks of batches."""
    counts = np.zeros(vocab_size, np.int64)
    for batch in batches:
        if batch["packed"]:
            real = batch["segments"] > 0
        else:
            real = np.broadcast_to(batch["weights"][:, None] > 0, batch["targets"].shape)
        counts += np.bincount(batch["targets"][real], minlength=vocab_size)
    return counts


def unigram_entropy(counts: np.ndarray) -> float:
    """Entropy (nats per token) of the targets' own distribution: the least loss of any model without context."""
    shares = counts[counts > 0] / counts.sum()
    return float(-np.sum(shares * np.log(shares)))
