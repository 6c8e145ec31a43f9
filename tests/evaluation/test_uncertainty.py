"""Standard errors, against closed forms and the jackknife."""

import math

import numpy as np
import pytest

from evaluation.uncertainty import (
    accuracy_error,
    estimate_difference,
    estimate_ratio,
    join_clusters,
    mean_error,
    share_error,
)

RNG = np.random.default_rng(0)
ALONE = np.arange(300)


def test_of_equal_sizes_the_error_is_that_of_a_mean():
    values = RNG.normal(2, 1, 300)
    found = estimate_ratio(values, np.ones(300), ALONE)
    assert found.value == pytest.approx(values.mean())
    assert found.error == found.cluster_error == pytest.approx(values.std(ddof=1) / math.sqrt(300))


def jackknife(ratio, groups):
    """Error of a ratio from the ratios without each group of documents in turn."""
    left_out = np.array([ratio(np.setdiff1d(ALONE, group)) for group in groups])
    return math.sqrt((len(groups) - 1) / len(groups) * np.sum(np.square(left_out - left_out.mean())))


def test_errors_over_documents_and_clusters_are_those_of_the_jackknife():
    sizes = RNG.uniform(50, 150, 300)
    clusters = np.repeat(np.arange(60), 5)
    values = sizes * (2 + np.repeat(RNG.normal(0, 0.5, 60), 5) + RNG.normal(0, 0.3, 300))
    found = estimate_ratio(values, sizes, clusters)

    def ratio(rows):
        return values[rows].sum() / sizes[rows].sum()

    assert found.error == pytest.approx(jackknife(ratio, ALONE[:, None]), rel=0.01)
    assert found.cluster_error == pytest.approx(jackknife(ratio, ALONE.reshape(60, 5)), rel=0.02)
    assert found.error and found.cluster_error and found.cluster_error > 1.5 * found.error


def test_what_two_models_find_hard_alike_is_no_part_of_the_error_of_their_difference():
    sizes, hard = RNG.uniform(50, 150, 300), RNG.normal(0, 1, 300)
    first, second = sizes * (2 + hard), sizes * (1.9 + hard)
    found = estimate_difference((first, sizes), (second, sizes), ALONE)
    assert found.value == pytest.approx(-0.1) and found.error == pytest.approx(0, abs=1e-12)
    assert (estimate_ratio(first, sizes, ALONE).error or 0) > 0.05


def test_one_document_tells_no_error():
    found = estimate_ratio(np.array([4.0]), np.array([2.0]), np.array([0]))
    assert found == (2.0, None, None) and accuracy_error(np.array([True])) is None
    assert estimate_ratio(np.ones(4), np.ones(4), np.zeros(4, int)).cluster_error is None
    assert accuracy_error(np.array([1, 0, 1, 1])) == pytest.approx(math.sqrt(0.75 * 0.25 / 3))


def test_the_error_of_a_mean_over_clusters_is_that_of_repeated_draws_of_clusters():
    rng = np.random.default_rng(4)
    means, errors, shares, share_errors = [], [], [], []
    for _ in range(1000):
        sizes = rng.integers(2, 9, 120)
        clusters = np.repeat(np.arange(120), sizes)
        values = np.repeat(rng.normal(size=120), sizes) + 0.3 * rng.normal(size=len(clusters))
        means.append(values.mean())
        errors.append(mean_error(values, clusters))
        rights = np.repeat(rng.random(120) < 0.5, sizes)
        shares.append(rights.mean())
        share_errors.append(share_error(rights, clusters))
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.05)
    assert np.mean(share_errors) == pytest.approx(np.std(shares), rel=0.1)


def test_one_cluster_tells_no_error_and_clusters_of_one_are_single_values():
    values = np.array([1.0, 0.0, 1.0, 1.0])
    assert mean_error(values, np.zeros(4, int)) is None and share_error(values, np.zeros(4, int)) is None
    assert mean_error(values, np.arange(4)) == pytest.approx(accuracy_error(values))
    assert share_error(values, np.arange(4)) == pytest.approx(math.sqrt(5 / 8 * 3 / 8 / 8))
    # The same answer ten times from each cluster is no more than once from each.
    assert share_error(np.repeat(values, 10), np.repeat(np.arange(4), 10)) == pytest.approx(
        math.sqrt(5 / 8 * 3 / 8 / 8)
    )


def test_clusters_are_joined_where_either_kind_has_samples_together():
    rng = np.random.default_rng(0)
    for _ in range(20):
        first, other = rng.integers(0, 8, (2, 12)) - 4
        found = join_clusters(first, other)
        together = np.equal.outer(first, first) | np.equal.outer(other, other)
        for _ in range(12):
            together = (together.astype(int) @ together.astype(int)) > 0
        assert (np.equal.outer(found, found) == together).all()
