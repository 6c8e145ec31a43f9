"""Next-token cross-entropy, in chunks when the logits would not fit."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int

from model import cap_logits, data_axes, tensor_axes

LOGITS_BYTES = 2**28
"""Most bytes of float32 logits that are held at once on a device: 256 MiB."""


class LossSums(NamedTuple):
    """Sums over real targets, float32: negative log-likelihood in nats, squared log-normaliser, count."""

    nll: Float[Array, "*groups"]
    z: Float[Array, "*groups"]
    count: Float[Array, "*groups"]


def cross_entropy(
    hidden_BLD: Float[Array, "B L D"],
    head_VD: Float[Array, "V D"],
    targets_BL: Int[Array, "B L"],
    weights_BL: Float[Array, "B L *groups"],
    *,
    mesh: Mesh | None = None,
    spec: PartitionSpec | None = None,
    chunk_tokens: int = 0,
    soft_cap: float = 0.0,
) -> LossSums:
    """Sum the cross-entropy of the targets under softmax(hidden @ head.T), each target times its weight.

    Weights with a third axis are several weightings at once (say, one for each stretch of positions): sums have it too.
    The logits are bent to stay within `soft_cap` unless it is 0.
    On several devices every device sums over the tokens it holds (`spec`: how rows and sequence lie on the mesh). On a
    tensor axis that divides the vocabulary it makes the logits of its own part alone, and sums over tokens travel
    (Megatron, https://arxiv.org/abs/1909.08053, section 3); otherwise all devices of the axis do the same work.
    `chunk_tokens` tokens of a device are turned into logits at once (0: chosen from LOGITS_BYTES); chunks are
    recomputed in the backward pass, so that only one chunk's logits ever exist.
    """
    if mesh is None or mesh.size == 1 or spec is None:
        return _local_sums(hidden_BLD, head_VD, targets_BL, weights_BL, chunk_tokens, soft_cap)

    axes = tensor_axes(mesh)
    vocab_axes = axes if head_VD.shape[0] % math.prod(mesh.shape[axis] for axis in axes) == 0 else ()

    def sums_of_shard(hidden_BLD, head_VD, targets_BL, weights_BL):
        sums = _local_sums(hidden_BLD, head_VD, targets_BL, weights_BL, chunk_tokens, soft_cap, vocab_axes)
        return jax.tree.map(lambda x: jax.lax.psum(x, data_axes(mesh)), sums)

    in_specs = (PartitionSpec(*spec, None), PartitionSpec(vocab_axes or None), spec, spec)
    sharded = jax.shard_map(sums_of_shard, mesh=mesh, in_specs=in_specs, out_specs=PartitionSpec(), check_vma=False)
    return sharded(hidden_BLD, head_VD, targets_BL, weights_BL)


def chunk_count(tokens: int, vocab_size: int, chunk_tokens: int) -> int:
    """Smallest power of two of equal chunks of which none exceeds the limit.

    >>> chunk_count(65536, 32768, 0), chunk_count(4096, 2048, 0), chunk_count(4096, 2048, 1024)
    (32, 1, 4)
    """
    limit = chunk_tokens or max(1, LOGITS_BYTES // (4 * vocab_size))
    chunks = 1
    while tokens % (2 * chunks) == 0 and tokens // chunks > limit:
        chunks *= 2
    return chunks


def _local_sums(
    hidden_BLD, head_VD, targets_BL, weights_BL, chunk_tokens: int, soft_cap: float, vocab_axes: tuple[str, ...] = ()
) -> LossSums:
    tokens = targets_BL.size
    chunks = chunk_count(tokens, head_VD.shape[0], chunk_tokens)
    # C: chunks, T: tokens of a chunk.
    hidden_CTD = hidden_BLD.reshape(chunks, tokens // chunks, hidden_BLD.shape[-1])
    targets_CT = targets_BL.reshape(chunks, -1)
    weights_CT = weights_BL.reshape(chunks, tokens // chunks, *weights_BL.shape[2:])
    if chunks == 1:
        return _chunk_sums(hidden_CTD[0], head_VD, targets_CT[0], weights_CT[0], soft_cap, vocab_axes)

    @jax.checkpoint
    def add_chunk(total: LossSums, chunk) -> tuple[LossSums, None]:
        hidden_TD, targets_T, weights_T = chunk
        sums = _chunk_sums(hidden_TD, head_VD, targets_T, weights_T, soft_cap, vocab_axes)
        return jax.tree.map(jnp.add, total, sums), None

    zero = jnp.zeros(weights_BL.shape[2:], jnp.float32)
    total, _ = jax.lax.scan(add_chunk, LossSums(zero, zero, zero), (hidden_CTD, targets_CT, weights_CT))
    return total


def _chunk_sums(hidden_TD, head_VD, targets_T, weights_T, soft_cap: float, vocab_axes: tuple[str, ...]) -> LossSums:
    """The head is cast here, inside the chunk, so that its gradient is accumulated over chunks in float32."""
    logits_TV = jnp.einsum("TD,VD->TV", hidden_TD, head_VD.astype(hidden_TD.dtype), preferred_element_type=jnp.float32)
    logits_TV = cap_logits(logits_TV, soft_cap)
    first = jax.lax.axis_index(vocab_axes) * logits_TV.shape[1] if vocab_axes else 0
    normalizer_T, target_logit_T = _normalizer_and_target(logits_TV, targets_T - first)
    if vocab_axes:
        largest_T = jax.lax.pmax(jax.lax.stop_gradient(normalizer_T), vocab_axes)
        normalizer_T = largest_T + jnp.log(jax.lax.psum(jnp.exp(normalizer_T - largest_T), vocab_axes))
        target_logit_T = jax.lax.psum(target_logit_T, vocab_axes)

    def weigh(values_T: jax.Array) -> jax.Array:
        return jnp.sum(jnp.expand_dims(values_T, range(1, weights_T.ndim)) * weights_T, axis=0)

    nll_T = normalizer_T - target_logit_T
    return LossSums(nll=weigh(nll_T), z=weigh(jnp.square(normalizer_T)), count=jnp.sum(weights_T, axis=0))


@jax.custom_vjp
def _normalizer_and_target(
    logits_TV: Float[Array, "T V"], targets_T: Int[Array, " T"]
) -> tuple[Float[Array, " T"], Float[Array, " T"]]:
    """Log-sum-exp of every row, and its logit at the target, 0 where that is outside.

    The gradient is written out, since derived from a mask or a gather it keeps or makes another two arrays as large as
    the logits: 4% of the time of a step of 4,096 tokens and 7 million parameters on CPU.
    """
    is_inside_T = (targets_T >= 0) & (targets_T < logits_TV.shape[1])
    picked_T = jnp.take_along_axis(logits_TV, targets_T[:, None], axis=-1, mode="clip")[:, 0]
    return jax.nn.logsumexp(logits_TV, axis=-1), jnp.where(is_inside_T, picked_T, 0.0)


def _forward(logits_TV: jax.Array, targets_T: jax.Array) -> tuple[tuple[jax.Array, jax.Array], tuple]:
    normalizer_T, target_logit_T = _normalizer_and_target(logits_TV, targets_T)
    return (normalizer_T, target_logit_T), (logits_TV, targets_T, normalizer_T)


def _backward(saved: tuple, grads: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
    logits_TV, targets_T, normalizer_T = saved
    normalizer_grad_T, target_grad_T = grads
    softmax_TV = jnp.exp(logits_TV - normalizer_T[:, None])
    is_target_TV = jax.lax.broadcasted_iota(jnp.int32, logits_TV.shape, 1) == targets_T[:, None]
    return softmax_TV * normalizer_grad_T[:, None] + jnp.where(is_target_TV, target_grad_T[:, None], 0.0), None


_normalizer_and_target.defvjp(_forward, _backward)
