"""The Llama decoder as Flax NNX modules, layers stacked on axis 0 and scanned.

Axes: B rows, L length, D model, N query heads, K key/value heads, H head dim, F hidden, V vocabulary.
"""

import functools
import math
from typing import Any, NamedTuple

import flax.nnx as nnx
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int

from model.attention import attend
from model.chunked import SAVED_NAME
from model.config import LlamaConfig
from model.norms import Norm
from model.rope import Rotation, rotate, rotation, segment_positions
from model.sharding import LOCAL, Layout

_policies = jax.checkpoint_policies
REMAT_POLICIES = {
    "dots": _policies.save_from_both_policies(
        _policies.dots_with_no_batch_dims_saveable, _policies.save_only_these_names(SAVED_NAME)
    ),
    "layer": _policies.nothing_saveable,
}


class Projections(NamedTuple):
    """Queries [B, L, N, H], keys and values [B, L, K, H] of one layer, turned to their positions."""

    queries: jax.Array
    keys: jax.Array
    values: jax.Array


class Block(nnx.Module):
    """One decoder layer: attention and SwiGLU feed-forward, each normalised first and added to the residual."""

    def __init__(self, config: LlamaConfig, depth: int | jax.Array, *, rngs: nnx.Rngs):
        dim, hidden = config.dim, config.hidden_width
        q_width, kv_width = config.num_heads * config.head_width, config.kv_heads * config.head_width
        shrink = 1 / jnp.sqrt(2 * (depth + 1.0))
        self.config = config
        self.attention_norm = Norm(config, dim)
        self.query = draw(rngs, (dim, q_width))
        self.key = draw(rngs, (dim, kv_width))
        self.value = draw(rngs, (dim, kv_width))
        self.attention_output = draw(rngs, (q_width, dim), shrink)
        if config.qk_norm:
            self.query_norm = Norm(config, q_width)
            self.key_norm = Norm(config, kv_width)
        self.feed_forward_norm = Norm(config, dim)
        self.gate = draw(rngs, (dim, hidden))
        self.up = draw(rngs, (dim, hidden))
        self.down = draw(rngs, (hidden, dim), shrink)

    def project(self, h_BLD: Float[Array, "B L D"], turn: Rotation, layout: Layout) -> Projections:
        """Queries, keys and values of the normalised residual."""
        x_BLD = self.attention_norm(h_BLD)
        query, key, value = (multiply(x_BLD, w[...], layout) for w in (self.query, self.key, self.value))
        if self.config.qk_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        heads = (*h_BLD.shape[:2], -1, self.config.head_width)
        return Projections(rotate(query.reshape(heads), turn), rotate(key.reshape(heads), turn), value.reshape(heads))

    def finish(self, h_BLD: Float[Array, "B L D"], attended_BLNH: jax.Array, layout: Layout) -> Float[Array, "B L D"]:
        """Add the attention's output and the feed-forward to the residual."""
        attended = attended_BLNH.reshape(*h_BLD.shape[:2], -1)
        h_BLD = layout.activations(h_BLD + multiply(attended, self.attention_output[...], layout))
        x_BLD = self.feed_forward_norm(h_BLD)
        gate_BLF, up_BLF = multiply(x_BLD, self.gate[...], layout), multiply(x_BLD, self.up[...], layout)
        return layout.activations(h_BLD + multiply(jax.nn.silu(gate_BLF) * up_BLF, self.down[...], layout))


class Llama(nnx.Module):
    """Token embedding, scanned decoder layers, final norm and (unless tied) an output head of its own."""

    def __init__(self, config: LlamaConfig, vocab_size: int, *, rngs: nnx.Rngs):
        self.config = config
        self.embedding = draw_rows(rngs, (vocab_size, config.dim))
        keys = jax.random.split(rngs.params(), config.num_layers)
        self.layers = nnx.vmap(lambda key, depth: Block(config, depth, rngs=nnx.Rngs(key)))(
            keys, jnp.arange(config.num_layers)
        )
        self.final_norm = Norm(config, config.dim)
        if not config.tied_embeddings:
            self.head = draw_rows(rngs, (vocab_size, config.dim))

    def __call__(
        self,
        tokens_BL: Int[Array, "B L"],
        *,
        segments_BL: Int[Array, "B L"] | None = None,
        positions_BL: Int[Array, "B L"] | None = None,
        layout: Layout = LOCAL,
    ) -> Float[Array, "B L D"]:
        """Hidden states after the final norm, in the compute dtype."""
        config = self.config
        turn = rotation(config, token_positions(tokens_BL, segments_BL, positions_BL))
        graph, stacked = nnx.split(self.layers)

        def apply_layer(h_BLD: jax.Array, weights: nnx.State) -> tuple[jax.Array, None]:
            block = nnx.merge(graph, compute_weights(weights, h_BLD.dtype, layout))
            q, k, v = block.project(h_BLD, turn, layout)
            attended_BLNH = attend(
                q,
                k,
                v,
                segments_BL=segments_BL,
                window=config.sliding_window,
                kernel=config.attention,
                layout=layout,
            )
            return block.finish(h_BLD, attended_BLNH, layout), None

        if config.remat != "none":
            apply_layer = jax.checkpoint(apply_layer, policy=REMAT_POLICIES[config.remat], prevent_cse=False)
        h_BLD = self.embed(tokens_BL, layout)
        h_BLD, _ = jax.lax.scan(apply_layer, h_BLD, stacked)
        return self.final_norm(h_BLD)

    def embed(self, tokens_BL: Int[Array, "B L"], layout: Layout) -> Float[Array, "B L D"]:
        """Rows of the embedding table, in the compute dtype."""
        dtype = compute_dtype(self.config)
        return layout.activations(look_up(self.embedding[...], tokens_BL.astype(jnp.int32), dtype, layout))


def multiply(x_BLI: Float[Array, "B L I"], weights_IO: Float[Array, "I O"], layout: Layout) -> Float[Array, "B L O"]:
    """x @ weights, as one flat matrix where no device holds a part of a row.

    XLA's CPU backend transposes both operands of the weight gradient of a three-axis product, which costs a third of
    the layer's time; but rows and a sharded length do not merge into one axis.
    """
    if layout.sequence_axes:
        return x_BLI @ weights_IO
    return (x_BLI.reshape(-1, x_BLI.shape[-1]) @ weights_IO).reshape(*x_BLI.shape[:-1], -1)


def look_up(
    table_VD: Float[Array, "V D"], tokens_BL: Int[Array, "B L"], dtype: jnp.dtype, layout: Layout
) -> Float[Array, "B L D"]:
    """Rows of a table, which is gathered first: a look-up in a sharded one repartitions it badly.

    On a tensor axis that divides the vocabulary each device looks up the tokens of its own part, and the sum over the
    axis is the row: the whole table, 2 GiB for 128k tokens of width 4,096, exists on no device.
    """
    axes = layout.tensor_axes
    if not axes or table_VD.shape[0] % layout.tensor_parallel:
        return jnp.take(layout.gathered(table_VD), tokens_BL, axis=0, mode="clip").astype(dtype)

    @functools.partial(
        jax.shard_map, mesh=layout.mesh, in_specs=(PartitionSpec(axes), layout.spec), out_specs=layout.spec
    )
    def look_up_own(own_VD: jax.Array, tokens_BL: jax.Array) -> jax.Array:
        places_BL = tokens_BL - jax.lax.axis_index(axes) * own_VD.shape[0]
        is_own_BL = (places_BL >= 0) & (places_BL < own_VD.shape[0])
        rows_BLD = jnp.take(own_VD, places_BL, axis=0, mode="clip").astype(dtype)
        return jax.lax.psum(jnp.where(is_own_BL[..., None], rows_BLD, jnp.zeros((), dtype)), axes)

    return look_up_own(table_VD, tokens_BL)


def draw(rngs: nnx.Rngs, shape: tuple[int, int], scale: float | jax.Array = 1.0) -> nnx.Param:
    """Float32 [inputs, outputs] weights of deviation scale / sqrt(inputs), cut at three deviations (OpenLM)."""
    weights = jax.random.truncated_normal(rngs.params(), -3, 3, shape, jnp.float32)
    return nnx.Param(weights * (scale / math.sqrt(shape[0])))


def draw_rows(rngs: nnx.Rngs, shape: tuple[int, int]) -> nnx.Param:
    """Float32 [V, D] embeddings of deviation 1 / sqrt(D), cut at three deviations."""
    return nnx.Param(jax.random.truncated_normal(rngs.params(), -3, 3, shape, jnp.float32) / math.sqrt(shape[1]))


def token_positions(
    tokens_BL: jax.Array, segments_BL: jax.Array | None, positions_BL: jax.Array | None
) -> Int[Array, "#B L"]:
    """The positions given, else those within segments, else 0, 1, ... as one row for all."""
    if positions_BL is not None:
        return positions_BL
    if segments_BL is not None:
        return segment_positions(segments_BL)
    return jnp.arange(tokens_BL.shape[1], dtype=jnp.int32)[None]


def compute_weights(weights: nnx.State, dtype: jnp.dtype, layout: Layout) -> nnx.State:
    """One layer's matrices in the compute dtype, gathered for use; cast first, so that half the bytes travel."""

    def prepare(path: Any, w: jax.Array) -> jax.Array:
        return layout.gathered(w.astype(dtype) if w.ndim > 1 else w, path)

    return jax.tree.map_with_path(prepare, weights)


def compute_dtype(config: LlamaConfig) -> jnp.dtype:
    """The dtype of activations: config.dtype, "auto" being float32 on CPU and bfloat16 elsewhere."""
    name = config.dtype
    if name == "auto":
        name = "float32" if jax.default_backend() == "cpu" else "bfloat16"
    return jnp.dtype(name)
