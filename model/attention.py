"""Causal self-attention behind one function.

Axes: B rows, L query length, S key length, N query heads, K key/value heads, G = N / K, H head dim, C queries a chunk.
"""

import jax
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int

from model.chunked import attend_chunked
from model.sharding import LOCAL, Layout


def attend(
    q_BLNH: Float[Array, "B L N H"],
    k_BLKH: Float[Array, "B L K H"],
    v_BLKH: Float[Array, "B L K H"],
    *,
    segments_BL: Int[Array, "B L"] | None = None,
    kernel: str = "auto",
    layout: Layout = LOCAL,
) -> Float[Array, "B L N H"]:
    """Softmax attention of every query to the keys at or before it, of its own segment if segments are given.

    Scores are scaled by 1 / sqrt(H) and summed in float32; the result has the dtype of v.
    """
    if not layout.is_sharded:
        return attend_chunked(q_BLNH, k_BLKH, v_BLKH, segments_BL, segments_BL)
    return _attend_sharded(q_BLNH, k_BLKH, v_BLKH, segments_BL, layout)


def _attend_sharded(q_BLNH, k_BLKH, v_BLKH, segments_BL, layout: Layout) -> jax.Array:
    """Attention of each device's own queries; keys and values are gathered over the axes that split the sequence."""
    axes = layout.sequence_axes

    def attend_local(q, k, v, segments):
        if not axes:
            return attend_chunked(q, k, v, segments, segments)
        k, v, key_segments = jax.tree.map(lambda x: jax.lax.all_gather(x, axes, axis=1, tiled=True), (k, v, segments))
        first = jax.lax.axis_index(axes) * q.shape[1]
        return attend_chunked(q, k, v, segments, key_segments, first)

    spec = PartitionSpec(*(layout.spec or ()))
    mapped = jax.shard_map(attend_local, mesh=layout.mesh, in_specs=spec, out_specs=spec)
    return mapped(q_BLNH, k_BLKH, v_BLKH, segments_BL)
