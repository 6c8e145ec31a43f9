"""Exact causal attention in plain JAX, memory linear in the length: the path of CPUs and of packed rows.

As in FlashAttention (https://arxiv.org/abs/2205.14135), a block of queries goes over the blocks of keys that it can see
with a running maximum and sum, and the backward pass computes the weights again from each query's log-sum-exp. A block
of scores is small enough to stay in a core's cache: passes over scores in memory would take as long as the products.

Axes: B rows, L queries, S keys, N query heads, K key/value heads, G = N / K, H head dim, and inside, where products
have one axis of each kind (XLA's CPU backend transposes its operands otherwise), M = B K matrices and R = L G queries.
"""

import functools
import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

T = TypeVar("T")

BLOCK = 256
"""Most positions of a block of queries, and keys of a block of keys."""
CACHE_BYTES = 2**18
"""Bytes of a block's scores that stay in the cache of a CPU's core."""
DEVICE_BYTES = 2**28
"""Bytes of the scores that a GPU or TPU makes at once, which needs many to be busy."""
MASKED = -1e30
"""Score of a pair that must not attend: finite, since a difference of infinities is not a number."""
SAVED_NAME = "attention"
"""Name of the output and log-sum-exp, for remat policies that keep them."""


class Tiling(NamedTuple):
    """How scores are cut into blocks, and how far a query sees."""

    queries: int  # of a block; whole positions
    keys: int  # of a block
    group: int  # queries of a position
    window: int  # keys that a query sees; 0: all


class Queries(NamedTuple):
    """Queries [M, R, H] and their segments [M, R, 1]."""

    vectors: jax.Array
    segments: jax.Array | None


class Keys(NamedTuple):
    """Keys and values [M, S, H] and the keys' segments [M, S, 1]."""

    vectors: jax.Array
    values: jax.Array
    segments: jax.Array | None


def attend_chunked(
    q_BLNH: Float[Array, "B L N H"],
    k_BSKH: Float[Array, "B S K H"],
    v_BSKH: Float[Array, "B S K H"],
    query_segments_BL: Int[Array, "B L"] | None = None,
    key_segments_BS: Int[Array, "B S"] | None = None,
    first: Int[Array, ""] | None = None,
    *,
    window: int = 0,
) -> Float[Array, "B L N H"]:
    """Attention of each query to the keys at or before it, of its own segment if segments are given.

    `first` is the position of the first query; None says that queries and keys are the same positions. With a `window`
    a query sees that many keys, its own the last. Blocks of keys after a block's queries, before the window of all, or
    before the first segment of any, are not looked at.
    """
    B, L, N, H = q_BLNH.shape
    S, K = k_BSKH.shape[1:3]
    G = N // K
    q_MRH = (q_BLNH * (1 / math.sqrt(H))).reshape(B, L, K, G, H).swapaxes(1, 2).reshape(B * K, L * G, H)
    k_MSH, v_MSH = (x.swapaxes(1, 2).reshape(B * K, S, H) for x in (k_BSKH, v_BSKH))
    segments = None if query_segments_BL is None else _repeat(query_segments_BL, K, G)
    key_segments = None if key_segments_BS is None else _repeat(key_segments_BS, K, 1)
    tiling = _tile(L, S, G, window)
    origin = jnp.zeros((), jnp.int32) if first is None else first
    out_MRH: Any = _attend(tiling, origin, Queries(q_MRH, segments), Keys(k_MSH, v_MSH, key_segments))
    return out_MRH.reshape(B, K, L, G, H).swapaxes(1, 2).reshape(B, L, N, H)


def score_bytes(num_matrices: int, length: int, group: int) -> int:
    """Bytes of the float32 scores that exist at once.

    Args:
        num_matrices: M: rows of the batch times key/value heads.
        length: Positions of a row.
        group: Query heads of a key/value head.
    """
    tiling = _tile(length, length, group, 0)
    return 4 * tiling.queries * tiling.keys * _matrices_at_once(num_matrices, tiling)


def _tile(length: int, num_keys: int, group: int, window: int) -> Tiling:
    return Tiling(group * min(length, max(1, BLOCK // group)), min(num_keys, BLOCK), group, window)


def _repeat(segments_BL: jax.Array, num_kv_heads: int, group: int) -> jax.Array:
    """[B, L] -> [M, R, 1]."""
    return jnp.repeat(jnp.repeat(segments_BL, num_kv_heads, axis=0), group, axis=1)[..., None]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(tiling: Tiling, first: jax.Array, queries: Queries, keys: Keys) -> jax.Array:
    return _forward(tiling, first, queries, keys)[0]


def _forward(tiling: Tiling, first: jax.Array, queries: Queries, keys: Keys) -> tuple[jax.Array, tuple]:
    """Output [M, R, H] and what the backward pass needs."""
    attend = functools.partial(_attend_matrices, tiling, first)
    padded = _pad(queries, tiling.queries), _pad(keys, tiling.keys)
    parts = _over_matrices(attend, padded, tiling)
    size = queries.vectors.shape[1]
    out, log_sums = (checkpoint_name(x[:, :size], SAVED_NAME) for x in parts)
    return out, (first, queries, keys, out, log_sums)


def _attend_matrices(tiling: Tiling, first: jax.Array, queries: Queries, keys: Keys) -> tuple[jax.Array, jax.Array]:
    """Output and float32 log-sum-exp [M, R, 1] of some of the matrices."""

    def attend_block(index: jax.Array) -> tuple[jax.Array, jax.Array]:
        position = first + index * (tiling.queries // tiling.group)
        block = _cut(queries, index, tiling.queries)

        def see(key_index: jax.Array, seen: tuple) -> tuple:
            out, largest, total = seen
            others = _cut(keys, key_index, tiling.keys)
            scores = _scores(tiling, block, others, position, key_index * tiling.keys)
            larger = jnp.maximum(largest, scores.max(axis=-1, keepdims=True))
            weights, shrink = jnp.exp(scores - larger), jnp.exp(largest - larger)
            part = _einsum("MRS,MSH->MRH", weights.astype(others.values.dtype), others.values)
            return out * shrink + part, larger, total * shrink + weights.sum(axis=-1, keepdims=True)

        shape = (*block.vectors.shape[:2], 1)
        nothing = jnp.zeros(block.vectors.shape, jnp.float32), jnp.full(shape, MASKED), jnp.zeros(shape, jnp.float32)
        out, largest, total = _over_keys(tiling, block, keys, position, see, nothing)
        return (out / total).astype(keys.values.dtype), largest + jnp.log(total)

    return jax.tree.map(_join, jax.lax.map(attend_block, jnp.arange(queries.vectors.shape[1] // tiling.queries)))


def _backward(tiling: Tiling, saved: tuple, grad: jax.Array) -> tuple[None, Queries, Keys]:
    """Gradients of queries, keys and values."""
    first, queries, keys, out, log_sums = saved
    # FlashAttention's D: the mean slope of the scores of a query, by which softmax shifts them all.
    drift = (grad.astype(jnp.float32) * out).sum(axis=-1, keepdims=True)
    differentiate = functools.partial(_differentiate_matrices, tiling, first)
    rows = _pad((queries, grad, log_sums, drift), tiling.queries)
    q_grad, k_grad, v_grad = _over_matrices(differentiate, (rows, _pad(keys, tiling.keys)), tiling)
    of_queries = q_grad[:, : queries.vectors.shape[1]].astype(queries.vectors.dtype)
    of_keys, of_values = (x[:, : keys.vectors.shape[1]].astype(keys.vectors.dtype) for x in (k_grad, v_grad))
    return None, Queries(of_queries, None), Keys(of_keys, of_values, None)


def _differentiate_matrices(tiling: Tiling, first: jax.Array, rows: tuple, keys: Keys) -> tuple[jax.Array, ...]:
    """Float32 gradients of the queries, keys and values of some of the matrices.

    Scores are [M, S, R] here: on CPU a product over the first axis of its left operand takes twice as long as others,
    and so one of the five is of that kind instead of two.
    """

    def differentiate_block(sums: tuple, index: jax.Array) -> tuple[tuple, jax.Array]:
        position = first + index * (tiling.queries // tiling.group)
        queries, grad, log_sums, drift = _cut(rows, index, tiling.queries)

        log_sums, drift = log_sums.swapaxes(1, 2), drift.swapaxes(1, 2)

        def see(key_index: jax.Array, sums: tuple) -> tuple:
            q_sum, k_sums, v_sums = sums
            others, start = _cut(keys, key_index, tiling.keys), key_index * tiling.keys
            scores = _einsum("MSH,MRH->MSR", others.vectors, queries.vectors)
            allowed = _allowed(tiling, queries, others, position, start).swapaxes(1, 2)
            weights = jnp.exp(jnp.where(allowed, scores, MASKED) - log_sums)
            slopes = (weights * (_einsum("MSH,MRH->MSR", others.values, grad) - drift)).astype(grad.dtype)
            k_sums = _add_at(start, k_sums, _einsum("MSR,MRH->MSH", slopes, queries.vectors))
            v_sums = _add_at(start, v_sums, _einsum("MSR,MRH->MSH", weights.astype(grad.dtype), grad))
            return q_sum + _einsum("MSR,MSH->MHR", slopes, others.vectors), k_sums, v_sums

        none = jnp.zeros(queries.vectors.swapaxes(1, 2).shape, jnp.float32)
        q_sum, *key_sums = _over_keys(tiling, queries, keys, position, see, (none, *sums))
        return tuple(key_sums), q_sum.swapaxes(1, 2)

    none = jnp.zeros(keys.vectors.shape, jnp.float32)
    sums, q_sums = jax.lax.scan(
        differentiate_block, (none, none), jnp.arange(rows[0].vectors.shape[1] // tiling.queries)
    )
    return _join(q_sums), *sums


_attend.defvjp(_forward, _backward)
_einsum = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


def _scores(tiling: Tiling, queries: Queries, keys: Keys, position: jax.Array, start: jax.Array) -> jax.Array:
    """Float32 scores [M, R, S] of a block, pairs that must not attend masked; its first query and key lie there."""
    scores = _einsum("MRH,MSH->MRS", queries.vectors, keys.vectors)
    return jnp.where(_allowed(tiling, queries, keys, position, start), scores, MASKED)


def _allowed(tiling: Tiling, queries: Queries, keys: Keys, position: jax.Array, start: jax.Array) -> jax.Array:
    """Which queries of a block see which keys, bool [M or 1, R, S]."""
    positions = position + jnp.arange(queries.vectors.shape[1])[None, :, None] // tiling.group
    key_positions = start + jnp.arange(keys.vectors.shape[1])
    allowed = positions >= key_positions
    if tiling.window:
        allowed &= positions - key_positions < tiling.window
    if queries.segments is not None and keys.segments is not None:
        allowed &= queries.segments == keys.segments.swapaxes(1, 2)
    return allowed


def _over_keys(tiling: Tiling, queries: Queries, keys: Keys, position: jax.Array, see: Callable[..., T], seen: T) -> T:
    """Let a block of queries, the first of which is at `position`, see each block of keys that is in sight."""
    count = keys.vectors.shape[1] // tiling.keys
    if count == 1:
        return see(jnp.zeros((), jnp.int32), seen)
    last = position + tiling.queries // tiling.group - 1
    start = jnp.maximum(position - (tiling.window - 1), 0) // tiling.keys if tiling.window else jnp.zeros((), jnp.int32)
    if queries.segments is not None and keys.segments is not None:
        start = jnp.maximum(start, _first_of_segments(queries.segments, keys.segments, count))
    return jax.lax.fori_loop(start, jnp.minimum(last // tiling.keys + 1, count), see, seen)


def _first_of_segments(query_segments: jax.Array, key_segments: jax.Array, count: int) -> jax.Array:
    """The first of `count` blocks of keys that may hold a segment of the queries: those before it hold none.

    Documents lie one after the other, so a block of queries begins to look where its first document begins.
    """
    blocks_MCS = key_segments.reshape(key_segments.shape[0], count, -1)
    low_M1, high_M1 = query_segments.min(axis=1), query_segments.max(axis=1)
    may_share_MC = (blocks_MCS.max(axis=2) >= low_M1) & (blocks_MCS.min(axis=2) <= high_M1)
    return jnp.argmax(may_share_MC.any(axis=0)).astype(jnp.int32)


def _over_matrices(function: Callable[..., Any], arrays: tuple, tiling: Tiling) -> Any:
    """Call it for as many of the matrices (axis 0) at a time as have blocks of scores that fit."""
    count = jax.tree.leaves(arrays)[0].shape[0]
    size = _matrices_at_once(count, tiling)
    if size == count:
        return function(*arrays)
    groups = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), arrays)
    parts = jax.lax.map(lambda group: function(*group), groups)
    return jax.tree.map(lambda x: x.reshape(count, *x.shape[2:]), parts)


def _matrices_at_once(count: int, tiling: Tiling) -> int:
    """The most matrices that divide all, of which the scores of a block fit: on CPU one for each core at least."""
    limit = DEVICE_BYTES if jax.default_backend() != "cpu" else CACHE_BYTES * (os.cpu_count() or 1)
    most = max(1, limit // (4 * tiling.queries * tiling.keys))
    return max(size for size in range(1, min(most, count) + 1) if count % size == 0)


def _pad(arrays: T, block: int) -> T:
    """Whole blocks of every [M, size, ...]: what is added are zeros, which lie after all that is real."""
    return jax.tree.map(lambda x: jnp.pad(x, ((0, 0), (0, -x.shape[1] % block), (0, 0))), arrays)


def _cut(arrays: T, index: jax.Array, size: int) -> T:
    """The block of this index of every [M, size, ...]."""
    return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, index * size, size, axis=1), arrays)


def _join(blocks: jax.Array) -> jax.Array:
    """[blocks, M, size, ...] -> [M, blocks * size, ...]."""
    return blocks.swapaxes(0, 1).reshape(blocks.shape[1], -1, *blocks.shape[3:])


def _add_at(start: jax.Array, total: jax.Array, part: jax.Array) -> jax.Array:
    """Add [M, size, H] to a longer one from `start` on."""
    part += jax.lax.dynamic_slice_in_dim(total, start, part.shape[1], axis=1)
    return jax.lax.dynamic_update_slice_in_dim(total, part, start, axis=1)
