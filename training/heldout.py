"""Held-out loss by length, bits per byte, and the unigram entropy that a model must beat to have learned anything."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dataservice.buckets import Bucket


def evaluate(
    batches: Iterable[dict[str, Any]], run_batch: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, float]:
    """Evaluate batches and average over real targets.

    Args:
        batches: batches as of `dataservice.held_out_batches`.
        run_batch: batch -> sums over its real targets: `nll` (nats), `count`, `bytes`.

    Returns:
        held_out_loss (nats per token), held_out_bits_per_byte, and held_out_loss_LENGTH for each bucket with targets
        (LENGTHp: the bucket of packed tails).
    """
    sums: dict[Bucket, np.ndarray] = {}
    for batch in batches:
        bucket = Bucket(batch["length"], batch["packed"])
        result = run_batch(batch)
        row = np.array([float(result["nll"]), float(result["count"]), float(result["bytes"])])
        sums[bucket] = sums.get(bucket, np.zeros(3)) + row
    nll, count, num_bytes = sum(sums.values(), np.zeros(3))
    values = {"held_out_loss": nll / count, "held_out_bits_per_byte": nll / math.log(2) / num_bytes}
    for bucket, (nll, count, _) in sorted(sums.items()):
        values[f"held_out_loss_{bucket.length}{'p' if bucket.packed else ''}"] = nll / count
    return {name: float(value) for name, value in values.items()}


def unigram_entropy(batches: Iterable[dict[str, Any]], vocab_size: int) -> float:
    """Entropy (nats per token) of the real targets' own distribution: the least loss of any model without context."""
    counts = np.zeros(vocab_size, np.int64)
    for batch in batches:
        if batch["packed"]:
            real = batch["segments"] > 0
        else:
            real = np.broadcast_to(batch["weights"][:, None] > 0, batch["targets"].shape)
        counts += np.bincount(batch["targets"][real], minlength=vocab_size)
    shares = counts[counts > 0] / counts.sum()
    return float(-np.sum(shares * np.log(shares)))
