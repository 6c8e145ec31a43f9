"""The train step and the evaluation step: pure functions of a plain dict of arrays, one executable a bucket shape."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import model
from dataservice.buckets import Bucket
from model import LlamaConfig
from training.loss import LossSums, cross_entropy

State = dict[str, Any]
"""{"params": nested dict of float32 arrays, "optimizer": optax state, "step": int32, steps taken}."""
Arrays = dict[str, jax.Array]


class StepSpec(NamedTuple):
    """All that the steps of a run share."""

    model: LlamaConfig
    vocab_size: int
    mesh: Mesh
    tokens_per_step: int
    z_loss: float
    loss_chunk_tokens: int


def batch_shapes(spec: StepSpec, bucket: Bucket, token_dtype: Any) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes, dtypes and shardings of the arrays of a bucket's batch."""
    rows = spec.tokens_per_step // bucket.length
    rows_spec = model.batch_spec(spec.mesh, rows, bucket.length)
    both = NamedSharding(spec.mesh, rows_spec)
    shape = (rows, bucket.length)
    arrays = {name: jax.ShapeDtypeStruct(shape, token_dtype, sharding=both) for name in ("inputs", "targets")}
    if bucket.packed:
        return arrays | {"segments": jax.ShapeDtypeStruct(shape, jnp.int32, sharding=both)}
    by_row = NamedSharding(spec.mesh, PartitionSpec(rows_spec[0]))
    return arrays | {"weights": jax.ShapeDtypeStruct((rows,), jnp.float32, sharding=by_row)}


def init_state(spec: StepSpec, optimizer: optax.GradientTransformation, key: jax.Array) -> State:
    """Initial parameters and optimizer state (traceable; run it under jit with the shardings of `state_shardings`)."""
    params = model.init_params(spec.model, spec.vocab_size, key)
    return {"params": params, "optimizer": optimizer.init(params), "step": jnp.zeros((), jnp.int32)}


def abstract_state(spec: StepSpec, optimizer: optax.GradientTransformation) -> State:
    """The state's shapes, dtypes and shardings, without any memory."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    shapes = jax.eval_shape(lambda key: init_state(spec, optimizer, key), key)
    shardings = model.param_shardings(shapes, spec.mesh)
    return jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), shapes, shardings)


def loss_sums(params: Any, batch: Arrays, spec: StepSpec) -> LossSums:
    """Cross-entropy sums of a batch."""
    rows, length = batch["inputs"].shape
    rows_spec = model.batch_spec(spec.mesh, rows, length)
    segments_BL = batch.get("segments")
    hidden_BLD = model.hidden_states(
        params,
        spec.model,
        batch["inputs"].astype(jnp.int32),
        segments_BL=segments_BL,
        mesh=spec.mesh,
        spec=rows_spec,
    )
    return cross_entropy(
        hidden_BLD,
        model.head_weights(params, spec.model),
        batch["targets"].astype(jnp.int32),
        target_weights(batch),
        mesh=spec.mesh,
        spec=rows_spec,
        chunk_tokens=spec.loss_chunk_tokens,
    )


def target_weights(batch: Arrays) -> jax.Array:
    """[B, L] float32: 1 for a real target, 0 for padding and for rows that only fill the batch."""
    if "segments" in batch:
        return (batch["segments"] > 0).astype(jnp.float32)
    return jnp.broadcast_to(batch["weights"][:, None], batch["targets"].shape)


def make_train_step(
    spec: StepSpec, optimizer: optax.GradientTransformation, learning_rate: optax.Schedule
) -> Callable[[State, Arrays], tuple[State, dict[str, jax.Array]]]:
    """One optimizer step: (state, batch) -> (state, metrics).

    The loss is summed over real targets and divided by the *constant* tokens per step, so that every target weighs the
    same in whichever batch it comes. A step whose loss or gradient is not finite leaves the state as it was and says so
    in `finite`. Metrics are float32 scalars: loss (nats per real target), count, gradient_norm, learning_rate, finite.
    """

    def objective(params: Any, batch: Arrays) -> tuple[jax.Array, LossSums]:
        sums = loss_sums(params, batch, spec)
        return (sums.nll + spec.z_loss * sums.z) / spec.tokens_per_step, sums

    def train_step(state: State, batch: Arrays) -> tuple[State, dict[str, jax.Array]]:
        params, step = state["params"], state["step"]
        (value, sums), grads = jax.value_and_grad(objective, has_aux=True)(params, batch)
        norm = optax.global_norm(grads)
        finite = jnp.isfinite(value) & jnp.isfinite(norm)
        rate = jnp.asarray(learning_rate(step), jnp.float32)
        direction, optimizer_state = optimizer.update(grads, state["optimizer"], params)
        moved = jax.tree.map(lambda parameter, along: parameter - rate * along, params, direction)
        new = {"params": moved, "optimizer": optimizer_state}
        old = {"params": params, "optimizer": state["optimizer"]}
        kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)
        metrics = {
            "loss": sums.nll / jnp.maximum(sums.count, 1),
            "count": sums.count,
            "gradient_norm": norm,
            "learning_rate": rate,
            "finite": finite.astype(jnp.float32),
        }
        return kept | {"step": step + 1}, metrics

    return train_step


def make_evaluation_step(spec: StepSpec) -> Callable[[Any, Arrays, jax.Array], dict[str, jax.Array]]:
    """(params, batch, token_lengths int32[V]) -> sums over the batch's real targets: nll (nats), count, bytes."""

    def evaluation_step(params: Any, batch: Arrays, token_lengths_V: jax.Array) -> dict[str, jax.Array]:
        sums = loss_sums(params, batch, spec)
        lengths_BL = token_lengths_V[batch["targets"].astype(jnp.int32)]
        real_bytes = jnp.sum(jnp.where(target_weights(batch) > 0, lengths_BL, 0))
        return {"nll": sums.nll, "count": sums.count, "bytes": real_bytes}

    return evaluation_step
