"""Exact causal attention in plain JAX whose memory is linear in the length: the path of CPUs and of packed rows.

Axes: B rows, L query length, S key length, N query heads, K key/value heads, G = N / K, H head dim, C queries a chunk.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

CHUNK = 256
"""Most queries whose scores exist at one time."""
BANDS = 8
"""Most parts of a row; the queries of a part see no keys after it, which saves 7/16 of the work."""
MASKED = -1e30
"""Score of a pair that must not attend: finite, since a difference of infinities is not a number."""


def attend_chunked(
    q_BLNH: Float[Array, "B L N H"],
    k_BSKH: Float[Array, "B S K H"],
    v_BSKH: Float[Array, "B S K H"],
    query_segments_BL: Int[Array, "B L"] | None = None,
    key_segments_BS: Int[Array, "B S"] | None = None,
    first: Int[Array, ""] | None = None,
) -> Float[Array, "B L N H"]:
    """Attention of each query to the keys at or before it, of its own segment if segments are given.

    `first` is the position of the first query; None says that queries and keys are the same positions, so that keys
    after a band of queries need not be looked at.
    """
    length = q_BLNH.shape[1]
    band = length if first is not None else min(length, max(CHUNK, -(-length // BANDS)))
    outputs = []
    for start in range(0, length, band):
        end = min(start + band, length)
        seen = k_BSKH.shape[1] if first is not None else end
        query_segments = None if query_segments_BL is None else query_segments_BL[:, start:end]
        key_segments = None if key_segments_BS is None else key_segments_BS[:, :seen]
        outputs.append(
            _attend_band(
                q_BLNH[:, start:end],
                k_BSKH[:, :seen],
                v_BSKH[:, :seen],
                query_segments,
                key_segments,
                start if first is None else first,
            )
        )
    return outputs[0] if len(outputs) == 1 else jnp.concatenate(outputs, axis=1)


def _attend_band(q, k, v, query_segments, key_segments, first) -> jax.Array:
    """Attention of one band of queries, a chunk at a time."""
    length = q.shape[1]
    if length <= CHUNK:
        return _attend_chunk(q, k, v, query_segments, key_segments, first)
    if length % CHUNK:
        raise NotImplementedError

    def split(x):
        return jnp.moveaxis(x.reshape(x.shape[0], -1, CHUNK, *x.shape[2:]), 1, 0)

    chunks = jax.tree.map(split, (q, query_segments))
    firsts = first + CHUNK * jnp.arange(length // CHUNK)
    out = jax.lax.map(lambda c: _attend_chunk(c[0][0], k, v, c[0][1], key_segments, c[1]), (chunks, firsts))
    return jnp.moveaxis(out, 0, 1).reshape(q.shape)


@functools.partial(jax.checkpoint, prevent_cse=False)
def _attend_chunk(q_BCNH, k_BSKH, v_BSKH, query_segments_BC, key_segments_BS, first) -> jax.Array:
    B, C, N, H = q_BCNH.shape
    S, K = k_BSKH.shape[1:3]
    q = q_BCNH.reshape(B, C, K, N // K, H) * (1 / math.sqrt(H))
    scores = jnp.einsum("bckgh,bskh->bkgcs", q, k_BSKH, preferred_element_type=jnp.float32)
    mask = (first + jnp.arange(C)[:, None] >= jnp.arange(S))[None]
    if query_segments_BC is not None:
        mask = mask & (query_segments_BC[:, :, None] == key_segments_BS[:, None, :])
    scores = jnp.where(mask[:, None, None], scores, MASKED)
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    total = weights.sum(-1)
    out = jnp.einsum("bkgcs,bskh->bckgh", weights.astype(v_BSKH.dtype), v_BSKH)
    out = out / total.transpose(0, 3, 1, 2)[..., None].astype(out.dtype)
    return out.reshape(B, C, N, H)
