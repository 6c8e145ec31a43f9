"""A check at start-up: the attention kernels of a run against float64 NumPy, on the device in use.

Kernels are compiled for a device by whatever versions of driver and compiler it has, and a mask that is ignored there
shows in no loss curve. Axes: B rows, L queries, S keys, N query heads, K key/value heads, G = N / K, H head dim.
"""

import functools
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from model.attention import attend, choose_kernel
from model.config import LlamaConfig
from model.errors import ModelError
from model.llama import compute_dtype

LENGTH = 128
"""Tokens of the rows that are tried: a block of splash. Compiling costs more than running."""
WINDOW = 40
"""Most tokens of the window that is tried."""


class Case(NamedTuple):
    """A kernel and whether it gets segments."""

    kernel: str
    packed: bool

    def __str__(self) -> str:
        return f"{self.kernel} with segments" if self.packed else self.kernel


class Attended(NamedTuple):
    """What attention returns and the gradients that it passes on; every array [B, L, heads, H]."""

    output: np.ndarray
    q_grad: np.ndarray
    k_grad: np.ndarray
    v_grad: np.ndarray


def check_attention(config: LlamaConfig, buckets: Iterable[tuple[int, bool]]) -> str:
    """Try each kernel that the buckets (length, whether packed) use; returns the line that says how near they are.

    Raises ModelError where a kernel does not run, or where an output or gradient is further from the reference than
    the tolerance, as a share of the largest value.
    """
    began = time.perf_counter()
    errors = measure_errors(config, cases_of(config, buckets))
    limit = tolerance(config)
    for case, error in errors.items():
        if not error <= limit:
            raise ModelError(
                f"attention by {case} must be within {limit:.0e} of float64 on {jax.default_backend()}, got "
                f"{error:.1e}; {_mend(case)}"
            )
    seconds = time.perf_counter() - began
    names = " and ".join(map(str, errors))
    return f"attention: {names} within {max(errors.values()):.0e} of float64 (checked in {seconds:.1f} s)"


def cases_of(config: LlamaConfig, buckets: Iterable[tuple[int, bool]]) -> list[Case]:
    """The kernels of the buckets; with several devices the chunked path as well, since long rows may be split."""
    platform, dtype = jax.default_backend(), compute_dtype(config)
    found: set[Case] = set()
    for length, packed in buckets:
        found.add(Case(choose_kernel(config.attention, platform, dtype, length, packed), packed))
        if jax.device_count() > 1:
            found.add(Case("chunked", packed))
    return sorted(found, key=lambda case: (case.kernel == "chunked", case))


def tolerance(config: LlamaConfig) -> float:
    """The largest error by dtype; GPUs and TPUs multiply float32 in fewer bits unless told otherwise."""
    return 1e-4 if compute_dtype(config) == jnp.float32 and jax.default_backend() == "cpu" else 3e-2


def measure_errors(config: LlamaConfig, cases: Sequence[Case]) -> dict[Case, float]:
    """The largest error of output or gradient by case, each as a share of its largest value in the reference.

    All are compiled as one: on CPU that takes 0.8 s for two, and 1.3 s apart.
    """
    arrays = _draw(config)
    window = min(config.sliding_window, WINDOW)
    segments_BL = np.repeat([1, 2, 2, 0], LENGTH // 4)[None]

    @jax.jit
    def differentiate(q: jax.Array, k: jax.Array, v: jax.Array, grad: jax.Array) -> list[tuple]:
        found = []
        for case in cases:
            segments = jnp.asarray(segments_BL) if case.packed else None
            run = functools.partial(attend, segments_BL=segments, window=window, kernel=case.kernel)
            output, pull_back = jax.vjp(run, q, k, v)
            found.append((output, *pull_back(grad)))
        return found

    try:
        found = jax.device_get(differentiate(*arrays))
    except (RuntimeError, ValueError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        names = " and ".join(map(str, cases))
        raise ModelError(f"attention by {names} must run on this device, got {reason}; {_mend(cases[0])}") from error
    q, k, v, grad = (np.asarray(x, np.float64) for x in arrays)
    return {
        case: _distance(own, attend_exactly(q, k, v, grad, segments_BL if case.packed else None, window))
        for case, own in zip(cases, found, strict=True)
    }


def _distance(found: Iterable[np.ndarray], expected: Attended) -> float:
    """The largest difference of any two arrays, as a share of the largest value of the expected one."""
    pairs = zip(found, expected, strict=True)
    return max(float(np.abs(np.asarray(a, np.float64) - b).max() / np.abs(b).max()) for a, b in pairs)


def attend_exactly(
    q_BLNH: np.ndarray,
    k_BSKH: np.ndarray,
    v_BSKH: np.ndarray,
    grad_BLNH: np.ndarray,
    segments_BL: np.ndarray | None,
    window: int,
) -> Attended:
    """Float64 attention with every score written out, and the gradients for that of its output."""
    B, L, N, H = q_BLNH.shape
    K = k_BSKH.shape[2]
    q, grad = (x.reshape(B, L, K, N // K, H) for x in (q_BLNH, grad_BLNH))
    distances_LS = np.subtract.outer(np.arange(L), np.arange(L))
    allowed = np.broadcast_to((distances_LS >= 0) & (distances_LS < (window or L)), (B, 1, 1, L, L))
    if segments_BL is not None:
        allowed = allowed & (segments_BL[:, :, None] == segments_BL[:, None, :])[:, None, None]
    scores = np.where(allowed, np.einsum("BLKGH,BSKH->BKGLS", q, k_BSKH) / np.sqrt(H), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    slopes = np.einsum("BLKGH,BSKH->BKGLS", grad, v_BSKH)
    slopes = weights * (slopes - (weights * slopes).sum(axis=-1, keepdims=True)) / np.sqrt(H)
    return Attended(
        output=np.einsum("BKGLS,BSKH->BLKGH", weights, v_BSKH).reshape(q_BLNH.shape),
        q_grad=np.einsum("BKGLS,BSKH->BLKGH", slopes, k_BSKH).reshape(q_BLNH.shape),
        k_grad=np.einsum("BKGLS,BLKGH->BSKH", slopes, q),
        v_grad=np.einsum("BKGLS,BLKGH->BSKH", weights, grad),
    )


def _draw(config: LlamaConfig) -> list[np.ndarray]:
    """Queries, keys, values and the gradient of the output, of the config's heads but at most two for keys."""
    kv_heads = min(config.kv_heads, 2)
    heads = kv_heads * (config.num_heads // config.kv_heads)
    generator = np.random.default_rng(0)
    widths = (heads, kv_heads, kv_heads, heads)
    shapes = [(1, LENGTH, width, config.head_width) for width in widths]
    return [generator.standard_normal(shape).astype(compute_dtype(config)) for shape in shapes]


def _mend(case: Case) -> str:
    if case.kernel == "chunked":
        return "try other versions of jax and of the device's driver"
    return "set model.attention=chunked"
