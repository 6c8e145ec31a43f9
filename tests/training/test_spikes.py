import statistics

import numpy as np
import pytest

from dataservice import Bucket
from training.spikes import SpikeDetector

SHORT, LONG = Bucket(8, False), Bucket(64, False)


def values(loss, gradient_norm=1.0):
    return {"loss": loss, "gradient_norm": gradient_norm}


def spikes_of(detector, bucket, losses):
    return [bool(detector.feed(bucket, values(loss))) for loss in losses]


def test_threshold_is_the_median_and_robust_deviations_of_the_window():
    rng = np.random.default_rng(0)
    window = list(rng.normal(4, 0.2, 9))
    median = statistics.median(window)
    deviation = 1.4826 * statistics.median(abs(loss - median) for loss in window)
    for excess in (-1e-9, 1e-9):
        detector = SpikeDetector(9, 3.0)
        # Older values than the window's have no say.
        spikes_of(detector, SHORT, [100.0] * 3 + window)
        found = detector.feed(SHORT, values(median + 3 * deviation + excess))
        assert [spike.name for spike in found] == (["loss"] if excess > 0 else [])


def test_each_bucket_is_compared_with_itself():
    detector = SpikeDetector(8, 8.0)
    for _ in range(8):
        assert not detector.feed(SHORT, values(5.0)) and not detector.feed(LONG, values(3.0))
    assert detector.feed(LONG, values(5.0)) and not detector.feed(SHORT, values(5.0))


def test_gradient_norm_spikes_by_itself():
    detector = SpikeDetector(8, 8.0)
    spikes_of(detector, SHORT, [4.0] * 8)
    (spike,) = detector.feed(SHORT, values(4.0, gradient_norm=30.0))
    assert spike.name == "gradient_norm"
    assert str(spike) == "gradient_norm 30 (usually 1 +- 0.01)"


def test_nothing_spikes_before_half_of_the_window_or_downwards_and_a_new_level_is_soon_usual():
    detector = SpikeDetector(8, 8.0)
    assert spikes_of(detector, SHORT, [9.0, 1.0, 1.0, 1.0]) == [False] * 4
    assert spikes_of(detector, SHORT, [1.0] * 8 + [0.1]) == [False] * 9
    level = spikes_of(detector, SHORT, [2.0] * 8)
    assert level[0] and not level[-1]


@pytest.mark.parametrize("deviations", [0.0])
def test_zero_deviations_report_nothing(deviations):
    assert not any(spikes_of(SpikeDetector(4, deviations), SHORT, [1.0] * 8 + [1e9]))
