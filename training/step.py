"""The train step: a pure function of a plain dict of arrays, one executable a bucket shape."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import model
from dataservice import Bucket
from model import LlamaConfig
from tokenizer import Tokenizer
from training.config import Config
from training.loss import LossSums, cross_entropy
from training.microbatches import microbatch_count, split_rows, sum_over
from training.optimizers.average import follow
from training.optimizers.config import OptimizerConfig
from training.optimizers.directions import make_optimizer
from training.optimizers.schedules import learning_rate

State = dict[str, Any]
"""{"params": nested dict of float32 arrays, "optimizer": optax state, "step": int32, steps taken}; with
optimizer.ema_decay also {"ema": an average like params, "ema_updates": int32, finite steps in it}."""
Arrays = dict[str, jax.Array]


class Recipe(NamedTuple):
    """All that the steps of a run share."""

    model: LlamaConfig
    vocab_size: int
    mesh: Mesh
    tokens_per_step: int
    token_dtype: np.dtype
    optimizer: optax.GradientTransformation
    learning_rate: Callable[[int], float]
    """Of a step, counted from 0."""
    optimizer_config: OptimizerConfig
    loss_chunk_tokens: int
    microbatch_tokens: int
    shard_parameters: bool


def make_recipe(config: Config, mesh: Mesh, tokenizer: Tokenizer, token_dtype: np.dtype, num_steps: int) -> Recipe:
    """Gather from the settings what the steps need."""
    return Recipe(
        model=config.model,
        vocab_size=tokenizer.vocab_size,
        mesh=mesh,
        tokens_per_step=config.data.tokens_per_step,
        token_dtype=token_dtype,
        optimizer=make_optimizer(config.optimizer),
        learning_rate=functools.partial(learning_rate, config.optimizer, num_steps),
        optimizer_config=config.optimizer,
        loss_chunk_tokens=config.train.loss_chunk_tokens,
        microbatch_tokens=config.train.microbatch_tokens,
        shard_parameters=config.distributed.shard_parameters,
    )


def batch_shapes(recipe: Recipe, bucket: Bucket) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes, dtypes and shardings of the arrays of a bucket's batch."""
    rows = recipe.tokens_per_step // bucket.length
    rows_spec = model.batch_spec(recipe.mesh, rows, bucket.length)
    both = NamedSharding(recipe.mesh, rows_spec)
    shape = (rows, bucket.length)
    arrays = {name: jax.ShapeDtypeStruct(shape, recipe.token_dtype, sharding=both) for name in ("inputs", "targets")}
    if bucket.packed:
        return arrays | {"segments": jax.ShapeDtypeStruct(shape, jnp.int32, sharding=both)}
    by_row = NamedSharding(recipe.mesh, PartitionSpec(rows_spec[0]))
    return arrays | {"weights": jax.ShapeDtypeStruct((rows,), jnp.float32, sharding=by_row)}


def rate_shape(recipe: Recipe) -> jax.ShapeDtypeStruct:
    """Shape, dtype and sharding of the learning rate that a step is given."""
    return jax.ShapeDtypeStruct((), jnp.float32, sharding=NamedSharding(recipe.mesh, PartitionSpec()))


def init_state(recipe: Recipe, key: jax.Array) -> State:
    """Initial parameters and optimizer state (traceable; run it under jit with the shardings of `state_shardings`)."""
    return state_of(recipe, model.init_params(recipe.model, recipe.vocab_size, key))


def state_of(recipe: Recipe, params: Any) -> State:
    """The state of a run that starts with these parameters: a fresh optimizer, no step taken (traceable)."""
    none = jnp.zeros((), jnp.int32)
    state = {"params": params, "optimizer": recipe.optimizer.init(params), "step": none}
    if recipe.optimizer_config.ema_decay:
        # The first update replaces it whole; until then the average is of what there is.
        state |= {"ema": params, "ema_updates": none}
    return state


def evaluated_params(state: State) -> Any:
    """The parameters that evaluation, export and generation use: their average where there is one."""
    return state.get("ema", state["params"])


def abstract_state(recipe: Recipe) -> State:
    """The state's shapes, dtypes and shardings, without any memory."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    shapes = jax.eval_shape(lambda key: init_state(recipe, key), key)
    shardings = model.param_shardings(shapes, recipe.mesh, replicated=not recipe.shard_parameters)
    return jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), shapes, shardings)


def loss_sums(params: Any, batch: Arrays, recipe: Recipe, weights_BL: jax.Array | None = None) -> LossSums:
    """Cross-entropy sums of a batch, by default over its real targets."""
    rows, length = batch["inputs"].shape
    rows_spec = model.batch_spec(recipe.mesh, rows, length)
    segments_BL = batch.get("segments")
    hidden_BLD = model.hidden_states(
        params,
        recipe.model,
        batch["inputs"].astype(jnp.int32),
        segments_BL=segments_BL,
        mesh=recipe.mesh,
        spec=rows_spec,
    )
    return cross_entropy(
        hidden_BLD,
        model.head_weights(params, recipe.model),
        batch["targets"].astype(jnp.int32),
        target_weights(batch) if weights_BL is None else weights_BL,
        mesh=recipe.mesh,
        spec=rows_spec,
        chunk_tokens=recipe.loss_chunk_tokens,
        soft_cap=recipe.model.logits_soft_cap,
    )


def target_weights(batch: Arrays) -> jax.Array:
    """[B, L] float32: 1 for a real target, 0 for padding and for rows that only fill the batch."""
    if "segments" in batch:
        return (batch["segments"] > 0).astype(jnp.float32)
    return jnp.broadcast_to(batch["weights"][:, None], batch["targets"].shape)


def batch_gradient(params: Any, batch: Arrays, recipe: Recipe) -> tuple[jax.Array, LossSums, Any]:
    """The objective of a batch, its sums and its gradient, in as many passes as recipe.microbatch_tokens asks for."""
    rows, length = batch["inputs"].shape
    config = recipe.optimizer_config

    def objective(params: Any, batch: Arrays) -> tuple[jax.Array, LossSums]:
        sums = loss_sums(params, batch, recipe)
        return config.loss_factor(length) * (sums.nll + config.z_loss * sums.z) / recipe.tokens_per_step, sums

    def gradient(batch: Arrays) -> tuple[jax.Array, LossSums, Any]:
        (value, sums), grads = jax.value_and_grad(objective, has_aux=True)(params, batch)
        return value, sums, grads

    count = microbatch_count(recipe.mesh, rows, length, recipe.microbatch_tokens)
    if count == 1:
        return gradient(batch)
    everywhere = NamedSharding(recipe.mesh, PartitionSpec())
    as_params = jax.tree.map(lambda leaf: leaf.sharding, abstract_state(recipe)["params"])
    shardings = (everywhere, everywhere, as_params)
    return sum_over(gradient, split_rows(batch, count, recipe.mesh), shardings)


def move(state: State, grads: Any, rate: jax.Array, recipe: Recipe) -> State:
    """Parameters, optimizer state and average after a step of this learning rate."""
    direction, optimizer = recipe.optimizer.update(grads, state["optimizer"], state["params"])
    params = jax.tree.map(lambda parameter, along: parameter - rate * along, state["params"], direction)
    new = {"params": params, "optimizer": optimizer}
    if "ema" in state:
        updates = state["ema_updates"] + 1
        new |= {"ema": follow(state["ema"], params, updates, recipe.optimizer_config.ema_decay), "ema_updates": updates}
    return new


def make_train_step(recipe: Recipe) -> Callable[[State, Arrays, jax.Array], tuple[State, dict[str, jax.Array]]]:
    """One optimizer step: (state, batch, learning rate) -> (state, metrics).

    The loss is summed over real targets and divided by the *constant* tokens per step, so that every target weighs the
    same in whichever batch it comes, unless the settings give its length a factor. A step whose loss or gradient is not
    finite leaves the state as it was and says so in `finite`. Metrics are float32 scalars: loss (nats per real target),
    count, gradient_norm, learning_rate, finite.
    """

    def train_step(state: State, batch: Arrays, rate: jax.Array) -> tuple[State, dict[str, jax.Array]]:
        value, sums, grads = batch_gradient(state["params"], batch, recipe)
        norm = optax.tree.norm(grads)
        finite = jnp.isfinite(value) & jnp.isfinite(norm)
        new = move(state, grads, rate, recipe)
        kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, {name: state[name] for name in new})
        metrics = {
            "loss": sums.nll / jnp.maximum(sums.count, 1),
            "count": sums.count,
            "gradient_norm": norm,
            "learning_rate": rate,
            "finite": finite.astype(jnp.float32),
        }
        return kept | {"step": state["step"] + 1}, metrics

    return train_step
