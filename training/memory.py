"""Memory of a train step on each device, in closed form: what the step is given, keeps, and works in.

What the step is given (parameters, optimizer, batch) is exact. The rest says what the algorithm needs at its peak; a
compiler schedules and fuses as it likes. `python -m training plan` prints both.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax

import model
from dataservice import Bucket
from model.chunked import score_bytes
from model.llama import compute_dtype
from training.loss import chunk_count
from training.microbatches import microbatch_count
from training.step import Recipe, abstract_state, batch_shapes, rate_shape

FLOAT32 = 4
"""Bytes of what is always float32: parameters, gradients, optimizer state, scores and logits."""
WORKING_COPIES = 3
"""Arrays of the size of scores or hidden width alive at once in a backward pass: value, exponential, slope."""
ATTENTION_COPIES = 10
"""Float32 arrays of the size of all queries, and of all keys, alive at once in the backward pass of attention."""


class DeviceMemory(NamedTuple):
    """Bytes on one device."""

    parameters: int
    """Its part of the parameters."""
    optimizer: int
    """Its part of the optimizer's state."""
    batch: int
    """Its rows and columns of a batch, and the learning rate."""
    gradients: int
    """Its part of the gradient, float32."""
    activations: int
    """What the forward pass keeps for the backward pass, of one microbatch."""
    workspace: int
    """Where a layer, or the loss, is computed: gathered weights and their gradients, scores, logits."""

    @property
    def arguments(self) -> int:
        """What the step is given; the state it returns takes the same place."""
        return self.parameters + self.optimizer + self.batch

    @property
    def temporary(self) -> int:
        """What the step needs besides."""
        return self.gradients + self.activations + self.workspace


def device_memory(recipe: Recipe, bucket: Bucket) -> DeviceMemory:
    """Memory of the train step of a bucket; of the mesh only its axes matter, so it may be an abstract one."""
    state = abstract_state(recipe)
    rows = recipe.tokens_per_step // bucket.length
    passes = microbatch_count(recipe.mesh, rows, bucket.length, recipe.microbatch_tokens)
    parameters = bytes_of_shards(state["params"])
    part = _LayerPart(recipe, bucket, passes)
    return DeviceMemory(
        parameters=parameters,
        optimizer=bytes_of_shards(state) - parameters,
        batch=bytes_of_shards((batch_shapes(recipe, bucket), rate_shape(recipe))),
        gradients=parameters,
        activations=recipe.model.num_layers * part.tokens * part.kept_bytes_per_token(),
        workspace=max(part.layer_bytes(), part.loss_bytes()),
    )


def bytes_of_shards(tree: Any) -> int:
    """Bytes on one device of arrays that are described with their shardings."""
    leaves: Iterable[Any] = jax.tree.leaves(tree)
    return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)


class _LayerPart:
    """The part of a layer, of the tokens of a microbatch, that one device computes."""

    def __init__(self, recipe: Recipe, bucket: Bucket, passes: int):
        config, mesh = recipe.model, recipe.mesh
        self.recipe, self.length = recipe, bucket.length
        self.tensor = math.prod(mesh.shape[axis] for axis in model.tensor_axes(mesh))
        self.tokens = recipe.tokens_per_step // passes // (mesh.size // self.tensor)
        self.size = compute_dtype(config).itemsize
        self.heads = config.num_heads // self.tensor
        self.attention_width = self.heads * config.head_width
        self.kv_width = config.kv_heads * config.head_width // self.tensor
        self.hidden = config.hidden_width // self.tensor
        self.dim = config.dim

    def kept_bytes_per_token(self) -> int:
        """Of a layer under `model.remat`: its input, and unless it is computed again, what follows."""
        products = 2 * self.attention_width + 2 * self.kv_width + self.dim + 2 * self.hidden
        kept = self.dim + (0 if self.recipe.model.remat == "layer" else products)
        log_sums = 0 if self.recipe.model.remat == "layer" else self.heads * FLOAT32
        # Without any recomputation also norms in float32, rotated queries and keys, and what the gate goes through.
        everything = 4 * FLOAT32 * self.dim + self.size * (5 * self.hidden + self.attention_width + self.kv_width)
        return kept * self.size + log_sums + (everything if self.recipe.model.remat == "none" else 0)

    def layer_bytes(self) -> int:
        """Gathered weights and their gradients, the wide activations of the feed-forward, a block's scores."""
        config = self.recipe.model
        weights = self.dim * (2 * self.attention_width + 2 * self.kv_width + 3 * self.hidden)
        wide = WORKING_COPIES * self.tokens * self.hidden
        rows = max(1, self.tokens // self.length)
        scores = WORKING_COPIES * score_bytes(rows * config.kv_heads, self.length, config.num_heads // config.kv_heads)
        flat = ATTENTION_COPIES * self.tokens * (self.attention_width + self.kv_width) * FLOAT32
        return self.size * (2 * weights + wide) + scores + flat

    def loss_bytes(self) -> int:
        """The head's gathered part and its gradient, float32, and a chunk's logits, which become their gradient."""
        vocabulary = self.recipe.vocab_size
        if vocabulary % self.tensor == 0:
            vocabulary //= self.tensor
        chunks = chunk_count(self.tokens, vocabulary, self.recipe.loss_chunk_tokens)
        logits = self.tokens // chunks * vocabulary * FLOAT32
        return 2 * vocabulary * self.dim * FLOAT32 + logits + 2 * self.tokens * self.dim * FLOAT32
