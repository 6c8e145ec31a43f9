"""Standard errors of ratios of sums, over documents and over clusters of them, and of paired differences.

A ratio such as bits per byte is sum(y) / sum(x) over documents. To first order, document i moves it by its influence
(y_i - ratio * x_i) / sum(x), and the variance of the ratio is that of the sum of influences (Cochran, Sampling
Techniques, 3rd edition, chapter 6). Documents of one repository are alike: for an error that holds for other
repositories, influences are summed by repository before they are squared.
"""

from typing import NamedTuple

import numpy as np

__all__ = [
    "Estimate",
    "Influences",
    "accuracy_error",
    "estimate_difference",
    "estimate_ratio",
    "join_clusters",
    "mean_error",
    "share_error",
]


class Influences(NamedTuple):
    """A ratio of sums and what each document adds to its error, float64[documents]."""

    value: float
    of_documents: np.ndarray


class Estimate(NamedTuple):
    """A number and its standard errors; None where there are fewer than two to tell by."""

    value: float
    error: float | None
    """Over documents."""
    cluster_error: float | None
    """Over clusters of documents."""


def influences(numerators: np.ndarray, denominators: np.ndarray) -> Influences:
    """The ratio of the sums, and the influence of each document on it; NaN over an empty sum."""
    total = denominators.sum()
    if total == 0:
        return Influences(float("nan"), np.zeros(len(numerators)))
    value = numerators.sum() / total
    return Influences(float(value), (numerators - value * denominators) / total)


def estimate_ratio(numerators: np.ndarray, denominators: np.ndarray, clusters: np.ndarray) -> Estimate:
    """The ratio of two sums with its standard errors.

    Args:
        numerators: float64[documents].
        denominators: float64[documents].
        clusters: int64[documents], numbers of the clusters.
    """
    return _estimate(influences(numerators, denominators), clusters)


def estimate_difference(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], clusters: np.ndarray
) -> Estimate:
    """The second ratio less the first, of the same documents: what both find hard cancels out of the error.

    Args:
        first: Numerators and denominators, float64[documents] each.
        second: The same of the other.
        clusters: int64[documents].
    """
    one, other = influences(*first), influences(*second)
    return _estimate(Influences(other.value - one.value, other.of_documents - one.of_documents), clusters)


def accuracy_error(is_right: np.ndarray) -> float | None:
    """Standard error of a mean of independent values, such as right or wrong; None of fewer than two."""
    return float(np.std(is_right, ddof=1) / np.sqrt(len(is_right))) if len(is_right) > 1 else None


def mean_error(values: np.ndarray, clusters: np.ndarray) -> float | None:
    """Standard error of a mean of values (float64[n]) of which those of one cluster (int64[n]) may be alike.

    None where all are of one.
    """
    return estimate_ratio(values, np.ones(len(values)), clusters).cluster_error


def share_error(is_right: np.ndarray, clusters: np.ndarray) -> float | None:
    """The same of a share of right answers, 0 or 1 each, as if two more clusters were all right and two all wrong.

    So a few answers that are all right or all wrong do not look certain (Agresti and Coull 1998, of single answers:
    sqrt(p (1 - p) / (n + 4)) with two more right and two more wrong ones in p).
    """
    _, numbers = np.unique(clusters, return_inverse=True)
    rights, sizes = np.bincount(numbers, is_right), np.bincount(numbers).astype(np.float64)
    if len(sizes) < 2:
        return None
    typical = sizes.mean()
    rights = np.concatenate([rights, [typical, typical, 0, 0]])
    sizes = np.concatenate([sizes, np.full(4, typical)])
    return float(np.sqrt(np.sum(np.square(influences(rights, sizes).of_documents))))


def join_clusters(first: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Clusters of samples, int64[n], that are together where either of two kinds of clusters (int64[n]) has them so.

    >>> join_clusters(np.array([0, 0, 1, 2]), np.array([5, 6, 6, 7])).tolist()
    [0, 0, 0, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    (_, rows), (_, columns) = (np.unique(clusters, return_inverse=True) for clusters in (first, other))
    count = int(rows.max()) + 1
    size = count + int(columns.max()) + 1
    edges = coo_array((np.ones(len(rows)), (rows, count + columns)), shape=(size, size))
    return connected_components(edges, directed=False)[1][rows].astype(np.int64)


def _estimate(found: Influences, clusters: np.ndarray) -> Estimate:
    _, numbers = np.unique(clusters, return_inverse=True)
    of_clusters = np.bincount(numbers, found.of_documents)
    return Estimate(found.value, _error(found.of_documents), _error(of_clusters))


def _error(parts: np.ndarray) -> float | None:
    """Standard error of a sum of independent parts of mean zero."""
    count = len(parts)
    return float(np.sqrt(count / (count - 1) * np.sum(np.square(parts)))) if count > 1 else None
