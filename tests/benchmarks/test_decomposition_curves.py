import json

import numpy as np
import pytest

from benchmarks.decomposition.curves import (
    Curve,
    RunRecord,
    Shape,
    bucket_seconds,
    late_loss,
    make_curve,
    reach,
    read_retrieval,
)
from benchmarks.decomposition.held_out import longest_seen, position_sums
from benchmarks.decomposition.step_times import paired_medians

SHORT, LONG = Shape(64, False), Shape(256, False)


def curve(losses: list[float]) -> Curve:
    count = len(losses)
    tokens = 100.0 * np.arange(1, count + 1)
    return Curve(tokens, np.cumsum(np.arange(1.0, count + 1)), 2 * tokens, np.array(losses))


def test_a_loss_is_reached_on_the_line_between_two_evaluations():
    # Two thirds of the way from 4 to 1 is at 2; seconds go from 1 to 3 there.
    reached = reach(curve([4.0, 1.0, 0.5]), 2.0)
    assert (reached.tokens, reached.seconds, reached.wall) == pytest.approx((100 + 200 / 3, 1 + 4 / 3, 200 + 400 / 3))


def test_the_first_crossing_counts_where_a_loss_rises_again():
    assert reach(curve([4.0, 2.0, 5.0, 1.0]), 2.0).tokens == 200


def test_a_loss_that_is_not_reached_takes_for_ever_and_one_that_was_before_counts_from_the_first_evaluation():
    assert reach(curve([4.0, 3.0]), 2.0).seconds == np.inf
    assert reach(curve([1.0, 0.5]), 2.0) == (100, 1, 200)


def test_after_an_evaluation_that_was_not_finite_the_next_one_counts_whole():
    assert reach(curve([4.0, np.nan, 1.0]), 2.0).tokens == 300


def record(shapes: list[Shape], seconds: list[float], steps: list[int]) -> RunRecord:
    rows = [{"step": step, "loss": 5.0 - step, "positions": []} for step in steps]
    return RunRecord(shapes, np.array(seconds), 10 * np.arange(1, len(shapes) + 1), [0.0] * len(shapes), rows, {})


def test_time_is_the_steps_of_each_shape_times_its_median():
    found = make_curve(record([SHORT, LONG, SHORT, LONG], [9.0, 9.0, 2.0, 1.0], [2, 4]), {SHORT: 1.0, LONG: 3.0})
    assert found.seconds.tolist() == [4, 8]
    assert found.wall.tolist() == [18, 21]
    assert found.tokens.tolist() == [20, 40]
    assert found.losses.tolist() == [3, 1]


def test_the_first_step_of_a_shape_is_left_out_of_its_median_unless_it_is_the_only_one():
    runs = [record([SHORT] * 4 + [LONG], [50.0, 1.0, 2.0, 3.0, 7.0], [5]), record([SHORT] * 2, [50.0, 4.0], [2])]
    assert bucket_seconds(runs) == {SHORT: [2.0, 4.0], LONG: [7.0]}


def test_positions_are_summed_by_powers_of_two_and_lose_nothing():
    rng = np.random.default_rng(0)
    parts = [rng.random(length) for length in (1, 5, 37, 64, 300)]
    rows = position_sums(parts)
    assert sum(count for _, _, count in rows) == 1 + 5 + 37 + 64 + 300
    assert sum(nats for _, nats, _ in rows) == pytest.approx(sum(part.sum() for part in parts))
    late = np.concatenate([part[64:] for part in parts])
    assert late_loss(rows, 64) == pytest.approx(late.mean())
    assert np.isnan(late_loss(rows, 512))


def test_long_context_measures_are_means_over_depths(tmp_path):
    cells = [
        {"task": "repetition", "measure": "gain", "length": 64, "depth": depth, "values": values}
        for depth, values in ((0.0, [1.0, 2.0]), (0.5, [6.0]))
    ]
    path = tmp_path / "retrieval.json"
    assert read_retrieval(path) == {}
    path.write_text(json.dumps({"models": [{"cells": cells}]}), encoding="utf-8")
    assert read_retrieval(path) == {"repetition gain": 3.0}


def test_rows_that_were_hardly_seen_do_not_make_the_window():
    assert longest_seen([64] * 30 + [128] * 70) == 128
    assert longest_seen([64] * 99 + [256]) == 64
    assert longest_seen([64] * 49 + [256]) == 256


def test_shapes_are_compared_within_turns_so_that_a_slow_turn_weighs_on_all_alike():
    slow = np.array([1.0, 5.0, 1.0, 3.0, 1.0])
    packed = Shape(256, True)
    seconds = {SHORT: 0.5 * slow, LONG: 2 * slow, packed: 3 * slow}
    found = paired_medians({shape: each.tolist() for shape, each in seconds.items()})
    assert found == pytest.approx({SHORT: 0.5, LONG: 2.0, packed: 3.0})
