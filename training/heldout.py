"""Held-out loss by length and position, bits per byte, and the unigram entropy that a model must beat."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
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
        values = evaluate_batches(
            evaluated_params(state),
            self._recipe,
            self._steps,
            self.batches,
            self._token_lengths,
            entering=lambda bucket: self._phases.enter(Kind.EVALUATE, f"step {step}, length {bucket_name(bucket)}"),
        )
        self._log.write({"step": step, "tokens": tokens, "seconds": self._log.seconds, **values})
        print(f"step {step}: held-out loss {values['held_out_loss']:.4f} nats per token")


def evaluate_batches(
    params: Any,
    recipe: Recipe,
    steps: dict[Bucket, CompiledStep],
    batches: Iterable[dict[str, Any]],
    token_lengths: jax.Array,
    *,
    entering: Callable[[Bucket], object] = lambda bucket: None,
) -> dict[str, float]:
    """Run the compiled evaluation steps over batches, and `average` what comes out.

    Args:
        params: Lie as those of `abstract_state`.
        recipe: What the steps were compiled from.
        steps: The executable of each bucket.
        batches: This process's blocks.
        token_lengths: int32[V], bytes of each token, on every device.
        entering: Called before each batch.
    """

    def bucket_sums(batch: dict[str, Any]) -> tuple[Bucket, dict[str, Any]]:
        bucket = Bucket(batch["length"], batch["packed"])
        entering(bucket)
        placed = place_batch(batch, batch_shapes(recipe, bucket))
        return bucket, jax.device_get(steps[bucket].call(params, placed, token_lengths))

    return average(map(bucket_sums, batches))


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
