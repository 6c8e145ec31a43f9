import itertools
import math
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from dataservice import Bucket
from model import LlamaConfig
from training.evaluation_step import make_evaluation_step, position_starts, position_weights
from training.heldout import average, count_targets, unigram_entropy


def plain(targets, weights):
    targets = np.array(targets, np.uint16)
    return {"length": targets.shape[1], "packed": False, "targets": targets, "weights": np.array(weights, np.float32)}


def packed(targets, segments):
    targets = np.array(targets, np.uint16)
    return {"length": targets.shape[1], "packed": True, "targets": targets, "segments": np.array(segments, np.int32)}


def test_loss_is_the_mean_over_real_targets_and_bits_over_their_bytes():
    values = average(
        [
            (Bucket(2, False), {"nll": [3.0, 1.0], "count": [1, 1], "bytes": 3}),
            (Bucket(2, True), {"nll": [3.0, 0.0], "count": [1, 0], "bytes": 5}),
            (Bucket(4, False), {"nll": [0.0, 0.0, 1.0], "count": [0, 0, 1], "bytes": 2}),
        ]
    )
    assert values["held_out_loss"] == pytest.approx(8.0 / 4)
    assert values["held_out_bits_per_byte"] == pytest.approx(8.0 / math.log(2) / 10)
    parts = {name.removeprefix("held_out_loss_"): value for name, value in values.items() if "loss_" in name}
    assert parts == {"2": 2.0, "2p": 3.0, "4": 1.0, "at_0": 3.0, "at_1": 1.0, "at_2": 1.0}


def naive_positions(segments):
    """Of each token how many of its segment come before it."""
    return np.array(
        [[sum(row[before] == row[at] for before in range(at)) for at in range(len(row))] for row in segments]
    )


@pytest.mark.parametrize(
    "batch",
    [
        plain(np.zeros((3, 8)), [1, 0, 1]),
        plain(np.zeros((2, 1)), [1, 1]),
        packed(np.zeros((2, 6)), [[1, 1, 1, 1, 1, 2], [1, 2, 2, 2, 0, 0]]),
    ],
)
def test_every_real_target_counts_once_at_its_position(batch):
    length = batch["length"]
    segments = batch["segments"] if batch["packed"] else np.ones_like(batch["targets"])
    real = batch["segments"] > 0 if batch["packed"] else np.broadcast_to(batch["weights"][:, None] > 0, segments.shape)
    positions = naive_positions(segments)
    weights_BLP = np.asarray(
        position_weights({name: batch[name] for name in batch if name not in ("length", "packed")})
    )
    starts = [*position_starts(length), length]
    for column, (start, end) in enumerate(itertools.pairwise(starts)):
        np.testing.assert_array_equal(weights_BLP[..., column], real & (start <= positions) & (positions < end))
    np.testing.assert_array_equal(weights_BLP.sum(axis=-1), real)


def test_evaluation_sums_are_those_of_single_tokens():
    config = LlamaConfig(num_layers=1, dim=16, num_heads=2, hidden_dim=32)
    params = model.init_params(config, 11, jax.random.key(0))
    rng = np.random.default_rng(0)
    inputs, targets = rng.integers(0, 11, (2, 2, 8)).astype(np.uint16)
    recipe: Any = SimpleNamespace(model=config, mesh=model.make_mesh(), tokens_per_step=16, loss_chunk_tokens=4)
    batch = {"inputs": inputs, "targets": targets, "weights": np.array([1, 0], np.float32)}
    sums = make_evaluation_step(recipe)(params, jax.tree.map(jnp.asarray, batch), jnp.arange(11))
    logits = np.asarray(model.logits(params, config, jnp.asarray(inputs, jnp.int32)), np.float64)
    log_odds = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    nll_L = -np.take_along_axis(log_odds, targets[..., None].astype(int), axis=-1)[0, :, 0]
    expected = [nll_L[0], nll_L[1], nll_L[2:4].sum(), nll_L[4:].sum()]
    np.testing.assert_allclose(sums["nll"], expected, rtol=1e-5)
    np.testing.assert_array_equal(sums["count"], [1, 1, 2, 4])
    assert sums["bytes"] == targets[0].sum()


def test_unigram_entropy_counts_real_targets_only():
    batches = [plain([[0, 1], [7, 7]], [1, 0]), packed([[2, 3, 5]], [[1, 2, 0]])]
    assert unigram_entropy(count_targets(batches, 10)) == pytest.approx(math.log(4))
    assert unigram_entropy(count_targets([plain([[3, 3]], [1])], 10)) == 0.0
