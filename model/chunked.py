"""Exact causal attention in plain JAX, memory linear in the length: the path of CPUs and of packed rows.

The row is cut into bands of queries; a band sees no key after it, and longer bands run a chunk of queries at a time.
With a window a chunk looks only at the keys that its queries can see, so that work is linear in the length as well.
The backward pass computes the weights again from each query's log-sum-exp, as FlashAttention does
(https://arxiv.org/abs/2205.14135), so that no matrix of scores outlives its chunk.

Axes: B rows, L queries, S keys, N query heads, K key/value heads, G = N / K, H head dim, and inside, where products
have one axis of each kind (XLA's CPU backend transposes its operands otherwise), M = B K matrices and R = L G queries.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

CHUNK = 256
"""Most positions whose scores exist at one time."""
BANDS = 8
"""Most bands of a row: they save up to 7/16 of the work, and each costs about 0.6 s of compilation."""
MASKED = -1e30
"""Score of a pair that must not attend: finite, since a difference of infinities is not a number."""
SAVED_NAME = "attention"
"""Name of the output and log-sum-exp, for remat policies that keep them."""


class Queries(NamedTuple):
    """Queries [M, R, H] with their positions [1, R, 1] and segments [M, R, 1]."""

    vectors: jax.Array
    positions: jax.Array
    segments: jax.Array | None


class Band(NamedTuple):
    """Queries start..end of the R, and which keys they see."""

    start: int
    end: int
    chunk: int  # queries of a chunk
    seen: int  # keys up to the end of the band
    width: int  # of these, how many a chunk can see
    window: int  # and how many a query


class Keys(NamedTuple):
    """Keys and values [M, S, H] with the keys' segments [M, 1, S]."""

    vectors: jax.Array
    values: jax.Array
    segments: jax.Array | None

    def cut(self, start: jax.Array | int, size: int) -> "Keys":
        """`size` keys from `start` on."""
        take = functools.partial(jax.lax.dynamic_slice_in_dim, start_index=start, slice_size=size)
        segments = None if self.segments is None else take(self.segments, axis=2)
        return Keys(take(self.vectors, axis=1), take(self.values, axis=1), segments)


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

    `first` is the position of the first query; None says that queries and keys are the same positions, and then the
    keys after a band of queries are not looked at. With a `window` a query sees that many keys, its own the last.
    """
    B, L, N, H = q_BLNH.shape
    S, K = k_BSKH.shape[1:3]
    G = N // K
    q_MRH = (q_BLNH * (1 / math.sqrt(H))).reshape(B, L, K, G, H).swapaxes(1, 2).reshape(B * K, L * G, H)
    k_MSH, v_MSH = (x.swapaxes(1, 2).reshape(B * K, S, H) for x in (k_BSKH, v_BSKH))
    positions = jnp.repeat(jnp.arange(L) + (0 if first is None else first), G)[None, :, None]
    segments = None if query_segments_BL is None else _repeat(query_segments_BL, K, G)[:, :, None]
    key_segments = None if key_segments_BS is None else _repeat(key_segments_BS, K, 1)[:, None, :]
    bands = _cut(L, G, None if first is None else S, window)
    out_MRH: Any = _attend(bands, Queries(q_MRH, positions, segments), Keys(k_MSH, v_MSH, key_segments))
    return out_MRH.reshape(B, K, L, G, H).swapaxes(1, 2).reshape(B, L, N, H)


def _repeat(segments_BL: jax.Array, num_kv_heads: int, group: int) -> jax.Array:
    """[B, L] -> [M, R]."""
    return jnp.repeat(jnp.repeat(segments_BL, num_kv_heads, axis=0), group, axis=1)


def _cut(length: int, group: int, num_keys: int | None, window: int) -> tuple[Band, ...]:
    """Bands of `length` positions, each seeing the keys up to its end, or one that sees `num_keys` keys if given.

    A band longer than a chunk is a whole number of chunks; what is left over at the end is a band of its own.
    """
    size = CHUNK * -(-length // (CHUNK * (BANDS if num_keys is None else 1)))
    whole = length // CHUNK * CHUNK
    cuts: list[int] = sorted({*range(0, length, size), *([whole] if length > CHUNK else []), length})
    bands = []
    for start, end in itertools.pairwise(cuts):
        seen, chunk = num_keys or end, min(CHUNK, end - start)
        own = min(window or seen, seen)
        width = min(seen, own - 1 + chunk)
        bands.append(Band(start * group, end * group, chunk=chunk * group, seen=seen, width=width, window=own))
    return tuple(bands)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(bands: tuple[Band, ...], queries: Queries, keys: Keys) -> jax.Array:
    return _forward(bands, queries, keys)[0]


def _forward(bands: tuple[Band, ...], queries: Queries, keys: Keys) -> tuple[jax.Array, tuple]:
    """Output [M, R, H] and what the backward pass needs."""
    parts = []
    for band in bands:
        attend_band = functools.partial(_attend_chunk, band, keys.cut(0, band.seen))
        parts.append(_over_chunks(attend_band, (), queries, band)[1])
    out, log_sums = jax.tree.map(lambda *x: checkpoint_name(jnp.concatenate(x, axis=1), SAVED_NAME), *parts)
    return out, (queries, keys, out, log_sums)


def _attend_chunk(band: Band, keys: Keys, _: tuple, queries: Queries) -> tuple[tuple, tuple[jax.Array, jax.Array]]:
    """Output [M, R, H] and float32 log-sum-exp of the scores [M, R, 1]."""
    start, keys = _within_sight(band, keys, queries)
    scores = _scores(queries, keys, start, band.window)
    largest = scores.max(axis=-1, keepdims=True)
    weights = jnp.exp(scores - largest)
    total = weights.sum(axis=-1, keepdims=True)
    out = _einsum("MRS,MSH->MRH", weights.astype(keys.values.dtype), keys.values) / total
    return (), (out.astype(keys.values.dtype), largest + jnp.log(total))


def _within_sight(band: Band, keys: Keys, queries: Queries) -> tuple[jax.Array | int, Keys]:
    """Of a band's keys those that a chunk of its queries can see, and the position of the first."""
    if band.width == band.seen:
        return 0, keys
    start = jnp.clip(queries.positions[0, 0, 0] - (band.window - 1), 0, band.seen - band.width)
    return start, keys.cut(start, band.width)


def _scores(queries: Queries, keys: Keys, start: jax.Array | int, window: int) -> jax.Array:
    """Float32 scores [M, R, S], pairs that must not attend masked; `start` is the position of the first key."""
    scores = _einsum("MRH,MSH->MRS", queries.vectors, keys.vectors)
    positions = start + jnp.arange(keys.vectors.shape[1])
    allowed = queries.positions >= positions
    if window < keys.vectors.shape[1]:
        allowed &= queries.positions - positions < window
    if queries.segments is not None:
        allowed &= queries.segments == keys.segments
    return jnp.where(allowed, scores, MASKED)


def _backward(bands: tuple[Band, ...], saved: tuple, grad: jax.Array) -> tuple[Queries, Keys]:
    """Gradients of queries, keys and values; the sums over queries are float32."""
    queries, keys, out, log_sums = saved
    drift = (grad.astype(jnp.float32) * out).sum(axis=-1, keepdims=True)
    query_parts, key_parts = [], []
    for band in bands:
        seen = keys.cut(0, band.seen)
        zeros = tuple(jnp.zeros_like(x, dtype=jnp.float32) for x in (seen.vectors, seen.values))
        differentiate_band = functools.partial(_differentiate_chunk, band, seen)
        sums, part = _over_chunks(differentiate_band, zeros, (queries, grad, log_sums, drift), band)
        query_parts.append(part)
        key_parts.append([jnp.pad(x, ((0, 0), (0, keys.vectors.shape[1] - band.seen), (0, 0))) for x in sums])
    k_grad, v_grad = (functools.reduce(jnp.add, parts).astype(grad.dtype) for parts in zip(*key_parts, strict=True))
    integers_have_none: Any = None
    q_grad = jnp.concatenate(query_parts, axis=1)
    return Queries(q_grad, integers_have_none, None), Keys(k_grad, v_grad, None)


def _differentiate_chunk(band: Band, keys: Keys, sums: tuple, chunk: tuple) -> tuple[tuple, jax.Array]:
    """Add a chunk's gradients to those of keys and values [M, S, H]; returns that of its queries as well."""
    queries, grad, log_sums, drift = chunk
    start, keys = _within_sight(band, keys, queries)
    weights = jnp.exp(_scores(queries, keys, start, band.window) - log_sums)
    slopes = _einsum("MRH,MSH->MRS", grad, keys.values)
    slopes = (weights * (slopes - drift)).astype(grad.dtype)
    k_sum = _add_at(start, sums[0], _einsum("MRS,MRH->MSH", slopes, queries.vectors))
    v_sum = _add_at(start, sums[1], _einsum("MRS,MRH->MSH", weights.astype(grad.dtype), grad))
    return (k_sum, v_sum), _einsum("MRS,MSH->MRH", slopes, keys.vectors).astype(grad.dtype)


def _add_at(start: jax.Array | int, total: jax.Array, part: jax.Array) -> jax.Array:
    """Add [M, W, H] to the keys of [M, S, H] from `start` on."""
    if part.shape == total.shape:
        return total + part
    part += jax.lax.dynamic_slice_in_dim(total, start, part.shape[1], axis=1)
    return jax.lax.dynamic_update_slice_in_dim(total, part, start, axis=1)


_attend.defvjp(_forward, _backward)
_einsum = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


def _over_chunks(step: Callable, carry: tuple, rows: Any, band: Band) -> tuple[tuple, Any]:
    """`jax.lax.scan` of `step` over the chunks of a band of every array's axis 1; at once when it is one chunk."""
    rows = jax.tree.map(lambda x: x[:, band.start : band.end], rows)
    if band.end - band.start <= band.chunk:
        return step(carry, rows)

    def split(x: jax.Array) -> jax.Array:
        return x.reshape(x.shape[0], -1, band.chunk, *x.shape[2:]).swapaxes(0, 1)

    def join(x: jax.Array) -> jax.Array:
        return x.swapaxes(0, 1).reshape(x.shape[1], -1, *x.shape[3:])

    carry, parts = jax.lax.scan(step, carry, jax.tree.map(split, rows))
    return carry, jax.tree.map(join, parts)
