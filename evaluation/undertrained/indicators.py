"""How near each token's output embedding is to that of unused tokens (Land and Bartolo, arXiv 2405.05417, 2.2).

What is never a target is pushed away from every hidden state, so the rows of unused tokens in the output embedding end
up beside each other. That holds for tied embeddings too, whose rows are the output's as well, so they are measured the
same way. (Land and Bartolo take the norm of rows of untied input embeddings, and of tied ones the cosine without the
first principal component, for a part that all rows share. Both can be asked for, but are not the default: in small
models the first component is the very direction of the unused, and rows never read stay as long as they were drawn.)

Everything is float64, a block of rows at a time: memory is the matrix as it is, a block, and D x D.
Axes: V rows, D model, T rows of a block.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from evaluation.errors import EvaluationError

__all__ = ["Indicator", "Indicators", "measure_indicators", "measure_norms"]

Indicator = Literal["cosine", "cosine_without_mean", "cosine_without_component", "euclidean", "plane", "input_norm"]
BLOCK_BYTES = 32 << 20


class Indicators(NamedTuple):
    """Of every row, float64[V]; the smaller, the more it looks untrained. u is the mean row of the reference."""

    cosine: np.ndarray
    """Cosine distance to u, from 0 to 2; 1 for a row of zeros, which has no direction."""
    cosine_without_mean: np.ndarray
    """The same after the mean of all rows was subtracted from rows and u."""
    cosine_without_component: np.ndarray
    """The same after the part along the first principal component of all rows was taken from rows and u."""
    euclidean: np.ndarray
    """Length of the difference to u."""

    @property
    def plane(self) -> np.ndarray:
        """Distance from (0, 0) in the plane of cosine and Euclidean distance."""
        return np.hypot(self.cosine, self.euclidean)


def measure_indicators(rows_VD: Any, reference: np.ndarray, block_bytes: int = BLOCK_BYTES) -> Indicators:
    """Measure all rows of an output embedding.

    Args:
        rows_VD: float[V, D], NumPy's or JAX's.
        reference: int64[n], rows that are known to be unused.
        block_bytes: Memory of a block of rows in float64.

    Raises:
        EvaluationError: the reference is zero, so nothing has a direction to it.
    """
    unused_D = np.asarray(rows_VD[reference], np.float64).mean(axis=0)
    if not unused_D.any():
        raise EvaluationError(
            "mean row of the unused tokens must have a direction, got zeros; name others by their ids with --unused"
        )
    mean_D = np.sum([block_TD.sum(axis=0) for block_TD in _blocks(rows_VD, block_bytes)], axis=0) / len(rows_VD)
    component_D = _first_component(rows_VD, mean_D, block_bytes)
    columns: list[list[np.ndarray]] = [[], [], [], []]
    for block_TD in _blocks(rows_VD, block_bytes):
        columns[0].append(_cosine_distance(block_TD, unused_D))
        columns[1].append(_cosine_distance(block_TD - mean_D, unused_D - mean_D))
        columns[2].append(_cosine_distance(_without(block_TD, component_D), _without(unused_D, component_D)))
        columns[3].append(np.linalg.norm(block_TD - unused_D, axis=1))
    return Indicators(*map(np.concatenate, columns))


def measure_norms(rows_VD: Any, block_bytes: int = BLOCK_BYTES) -> np.ndarray:
    """Length of every row, float64[V]: rows of an input embedding that are never read only decay, or stay as drawn."""
    return np.concatenate([np.linalg.norm(block_TD, axis=1) for block_TD in _blocks(rows_VD, block_bytes)])


def _blocks(rows_VD: Any, block_bytes: int) -> Iterator[np.ndarray]:
    """Yield float64[T, D], all rows in order."""
    num_rows = max(1, block_bytes // (8 * rows_VD.shape[1]))
    for first in range(0, len(rows_VD), num_rows):
        yield np.asarray(rows_VD[first : first + num_rows]).astype(np.float64)


def _first_component(rows_VD: Any, mean_D: np.ndarray, block_bytes: int) -> np.ndarray:
    """Direction, float64[D], in which rows differ most from their mean."""
    from scipy.linalg import eigh

    scatter_DD = np.zeros((len(mean_D), len(mean_D)))
    for block_TD in _blocks(rows_VD, block_bytes):
        centred_TD = block_TD - mean_D
        scatter_DD += centred_TD.T @ centred_TD
    _, vectors_D1 = eigh(scatter_DD, subset_by_index=[len(mean_D) - 1] * 2, overwrite_a=True)
    return vectors_D1[:, 0]


def _without(rows: np.ndarray, component_D: np.ndarray) -> np.ndarray:
    """Rows, [..., D], without their part along a direction of length 1."""
    return rows - (rows @ component_D)[..., None] * component_D


def _cosine_distance(rows_TD: np.ndarray, other_D: np.ndarray) -> np.ndarray:
    """1 minus the cosine of the angle between each row and another; 1 where either is zero."""
    lengths_T = np.linalg.norm(rows_TD, axis=1) * np.linalg.norm(other_D)
    return 1 - np.divide(rows_TD @ other_D, lengths_T, out=np.zeros(len(rows_TD)), where=lengths_T > 0)
