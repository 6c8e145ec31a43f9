"""Causal self-attention behind one function: which kernel runs where, and on which part of a sharded batch.

Axes: B rows, L length, N query heads, K key/value heads, H head dim.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int

from model.chunked import attend_chunked
from model.errors import ModelError
from model.sharding import LOCAL, Layout

SPLASH_BLOCK = 128
"""Splash works on blocks of this many tokens."""
NATIVE_KERNELS = {"gpu": "cudnn", "tpu": "splash"}


def attend(
    q_BLNH: Float[Array, "B L N H"],
    k_BLKH: Float[Array, "B L K H"],
    v_BLKH: Float[Array, "B L K H"],
    *,
    segments_BL: Int[Array, "B L"] | None = None,
    window: int = 0,
    kernel: str = "auto",
    layout: Layout = LOCAL,
) -> Float[Array, "B L N H"]:
    """Softmax attention of every query to the keys at or before it, of its own segment if segments are given.

    With a `window` a query sees that many keys, its own the last. Scores are scaled by 1 / sqrt(H) and summed in
    float32; the result has the dtype of v. `kernel` is LlamaConfig.attention: its kernel runs wherever it is exact, the
    chunked path elsewhere. Raises ModelError where a kernel asked for by name cannot run on this platform.
    """
    platform = layout.platform
    if not layout.is_sharded:
        return _attend_rows(q_BLNH, k_BLKH, v_BLKH, segments_BL, window, kernel, platform)
    return _attend_sharded(q_BLNH, k_BLKH, v_BLKH, segments_BL, window, kernel, platform, layout)


def _attend_sharded(
    q_BLNH: jax.Array,
    k_BLKH: jax.Array,
    v_BLKH: jax.Array,
    segments_BL: jax.Array | None,
    window: int,
    kernel: str,
    platform: str,
    layout: Layout,
) -> jax.Array:
    """Attention of each device's own heads, and its own queries where the sequence is split.

    Where the parts of the sequence are no more than heads to share among them, devices swap parts of a row for whole
    rows of fewer heads (DeepSpeed-Ulysses, https://arxiv.org/abs/2309.14509): any kernel runs, no device has more
    work than another, and less travels. Otherwise keys and values are gathered, and each device attends to all.
    """
    axes = layout.sequence_axes
    tokens = PartitionSpec(layout.row_axes or None, axes or None)
    heads = PartitionSpec(*tokens, layout.tensor_axes or None)

    # Unchecked: kernels do not say over which axes their results vary. Every axis of the mesh splits something here.
    @functools.partial(
        jax.shard_map, mesh=layout.mesh, in_specs=(heads, heads, heads, tokens), out_specs=heads, check_vma=False
    )
    def attend_local(q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array | None) -> jax.Array:
        if not axes:
            return _attend_rows(q, k, v, segments, window, kernel, platform)
        gather = functools.partial(jax.lax.all_gather, axis_name=axes, axis=1, tiled=True)
        if k.shape[2] % jax.lax.axis_size(axes) == 0:
            swap = functools.partial(jax.lax.all_to_all, axis_name=axes, tiled=True)
            q, k, v = (swap(x, split_axis=2, concat_axis=1) for x in (q, k, v))
            out = _attend_rows(q, k, v, jax.tree.map(gather, segments), window, kernel, platform)
            return swap(out, split_axis=1, concat_axis=2)
        k, v, key_segments = jax.tree.map(gather, (k, v, segments))
        first = jax.lax.axis_index(axes) * q.shape[1]
        return attend_chunked(q, k, v, segments, key_segments, first=first, window=window)

    return attend_local(q_BLNH, k_BLKH, v_BLKH, segments_BL)


def _attend_rows(
    q_BLNH: jax.Array,
    k_BLKH: jax.Array,
    v_BLKH: jax.Array,
    segments_BL: jax.Array | None,
    window: int,
    kernel: str,
    platform: str,
) -> jax.Array:
    """Attention within whole rows."""
    chosen = choose_kernel(kernel, platform, q_BLNH.dtype, q_BLNH.shape[1], segments_BL is not None)
    if chosen == "cudnn":
        return attend_cudnn(q_BLNH, k_BLKH, v_BLKH, window=window)
    if chosen == "splash":
        return attend_splash(q_BLNH, k_BLKH, v_BLKH, segments_BL, window=window)
    return attend_chunked(q_BLNH, k_BLKH, v_BLKH, segments_BL, segments_BL, window=window)


def choose_kernel(kernel: str, platform: str, dtype: jnp.dtype, length: int, has_segments: bool) -> str:
    """The kernel that runs: the one asked for, where it is exact.

    cuDNN has no segment mask and no float32, splash works on blocks of 128 tokens: there the chunked path runs under
    "auto", and for packed rows under "cudnn". ModelError names the rest.
    """
    native = NATIVE_KERNELS.get(platform, "chunked")
    if kernel not in ("auto", "chunked", native):
        expected = f"auto, chunked or {native}" if native != "chunked" else "auto or chunked"
        raise ModelError(f"attention must be {expected} on {platform}, got {kernel}; set model.attention=auto")
    if kernel == "auto":
        kernel = native
        if (kernel == "cudnn" and dtype == jnp.float32) or (kernel == "splash" and length % SPLASH_BLOCK):
            kernel = "chunked"
    if kernel == "cudnn" and dtype == jnp.float32:
        raise ModelError("dtype must be bfloat16 with cuDNN attention, got float32; set model.dtype or model.attention")
    if kernel == "splash" and length % SPLASH_BLOCK:
        mend = "set model.attention=auto"
        raise ModelError(f"length must be a multiple of {SPLASH_BLOCK} for splash attention, got {length}; {mend}")
    return "chunked" if kernel == "cudnn" and has_segments else kernel


def attend_cudnn(
    q_BLNH: Float[Array, "B L N H"], k_BLKH: Float[Array, "B L K H"], v_BLKH: Float[Array, "B L K H"], *, window: int
) -> Float[Array, "B L N H"]:
    """The GPU's fused kernel. Its window needs is_causal, without which it sees the future."""
    sides = (window - 1, 0) if window else None
    return jax.nn.dot_product_attention(
        q_BLNH, k_BLKH, v_BLKH, is_causal=True, local_window_size=sides, implementation="cudnn"
    )


def attend_splash(
    q_BLNH: Float[Array, "B L N H"],
    k_BLKH: Float[Array, "B L K H"],
    v_BLKH: Float[Array, "B L K H"],
    segments_BL: Int[Array, "B L"] | None,
    *,
    window: int = 0,
    interpret: bool = False,
) -> Float[Array, "B L N H"]:
    """The TPU's block-sparse kernel, segments in its own mask; `interpret` runs it on any platform, slowly."""
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    _, L, N, H = q_BLNH.shape
    own = splash.LocalMask((L, L), window_size=(window - 1, 0), offset=0) if window else splash.CausalMask((L, L))
    mask = splash.MultiHeadMask([own] * N)
    block = next(size for size in (512, 256, SPLASH_BLOCK) if L % size == 0)
    blocks = splash.BlockSizes(
        block_q=block,
        block_kv=block,
        block_kv_compute=block,
        block_q_dkv=block,
        block_kv_dkv=block,
        block_kv_dkv_compute=block,
        block_q_dq=block,
        block_kv_dq=block,
    )
    run = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=blocks, interpret=interpret)
    q, k, v = ((x.swapaxes(1, 2)) for x in (q_BLNH * (H**-0.5), k_BLKH, v_BLKH))
    segments = None if segments_BL is None else splash.SegmentIds(segments_BL, segments_BL)
    out_BNLH: Any = jax.vmap(run)(q, k, v, segments)
    return out_BNLH.swapaxes(1, 2)
