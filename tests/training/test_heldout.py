import math

import numpy as np
import pytest

from dataservice import Bucket
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
            (Bucket(2, False), {"nll": 4.0, "count": 2, "bytes": 3}),
            (Bucket(2, True), {"nll": 3.0, "count": 1, "bytes": 5}),
            (Bucket(4, False), {"nll": 1.0, "count": 1, "bytes": 2}),
        ]
    )
    assert values["held_out_loss"] == pytest.approx(8.0 / 4)
    assert values["held_out_bits_per_byte"] == pytest.approx(8.0 / math.log(2) / 10)
    by_length = {name: value for name, value in values.items() if name.startswith("held_out_loss_")}
    assert by_length == {"held_out_loss_2": 2.0, "held_out_loss_2p": 3.0, "held_out_loss_4": 1.0}


def test_unigram_entropy_counts_real_targets_only():
    batches = [plain([[0, 1], [7, 7]], [1, 0]), packed([[2, 3, 5]], [[1, 2, 0]])]
    assert unigram_entropy(count_targets(batches, 10)) == pytest.approx(math.log(4))
    assert unigram_entropy(count_targets([plain([[3, 3]], [1])], 10)) == 0.0
