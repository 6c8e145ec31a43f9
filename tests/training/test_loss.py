import jax
import jax.numpy as jnp
import numpy as np
import pytest

from training.loss import LOGITS_BYTES, chunk_count, cross_entropy

B, L, D, V = 4, 8, 6, 11


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(B, L, D)).astype(np.float32)
    head = rng.normal(size=(V, D)).astype(np.float32)
    targets = rng.integers(0, V, (B, L)).astype(np.int32)
    weights = (rng.random((B, L)) < 0.7).astype(np.float32)
    return hidden, head, targets, weights


def reference(hidden, head, targets, weights, soft_cap=np.inf):
    """The sums in float64, one target at a time."""
    nll = z = 0.0
    logits = np.einsum("bld,vd->blv", hidden.astype(np.float64), head.astype(np.float64))
    if np.isfinite(soft_cap):
        logits = soft_cap * np.tanh(logits / soft_cap)
    for b in range(B):
        for i in range(L):
            normalizer = np.log(np.sum(np.exp(logits[b, i])))
            nll += weights[b, i] * (normalizer - logits[b, i, targets[b, i]])
            z += weights[b, i] * normalizer**2
    return nll, z, weights.sum()


@pytest.mark.parametrize("chunk_tokens", [0, 16, 8, 1])
def test_sums_equal_float64_reference(inputs, chunk_tokens):
    sums = cross_entropy(*map(jnp.asarray, inputs), chunk_tokens=chunk_tokens)
    np.testing.assert_allclose(np.array(sums), reference(*inputs), rtol=1e-5)
    capped = cross_entropy(*map(jnp.asarray, inputs), chunk_tokens=chunk_tokens, soft_cap=1.5)
    np.testing.assert_allclose(np.array(capped), reference(*inputs, soft_cap=1.5), rtol=1e-5)


def test_gradient_equals_finite_differences_of_the_reference(inputs):
    hidden, head, targets, weights = inputs
    grad = jax.grad(lambda head: cross_entropy(hidden, head, targets, weights, chunk_tokens=8).nll)(jnp.asarray(head))
    for index in [(0, 0), (3, 2), (10, 5)]:
        step = np.zeros_like(head, dtype=np.float64)
        step[index] = 1e-5
        up, down = reference(hidden, head + step, targets, weights), reference(hidden, head - step, targets, weights)
        np.testing.assert_allclose(grad[index], (up[0] - down[0]) / 2e-5, rtol=1e-3, atol=1e-4)


def test_chunked_gradient_in_bfloat16_is_accumulated_in_float32():
    rng = np.random.default_rng(1)
    hidden = jnp.asarray(rng.normal(size=(4, 64, D)), jnp.bfloat16)
    head = jnp.asarray(rng.normal(size=(V, D)), jnp.float32)
    targets = jnp.asarray(rng.integers(0, V, (4, 64)), jnp.int32)
    weights = jnp.ones((4, 64))

    def grad(chunk_tokens):
        loss = lambda head: cross_entropy(hidden, head, targets, weights, chunk_tokens=chunk_tokens).nll  # noqa: E731
        return np.array(jax.grad(loss)(head))

    exact, chunked = grad(256), grad(4)
    assert chunked.dtype == np.float32
    # Accumulating 64 chunks in bfloat16 would be off by a per cent.
    assert np.abs(chunked - exact).max() / np.abs(exact).max() < 0.004


def test_targets_of_weight_zero_do_not_count(inputs):
    hidden, head, targets, weights = inputs
    changed = np.where(weights > 0, targets, (targets + 1) % V)
    a = cross_entropy(hidden, head, targets, weights)
    b = cross_entropy(hidden, head, changed, weights)
    assert [float(x) for x in a] == [float(x) for x in b]


@pytest.mark.parametrize(("tokens", "vocab", "limit"), [(65536, 128256, 0), (4096, 4096, 0), (100, 7, 30), (96, 7, 10)])
def test_chunks_divide_the_tokens_and_keep_the_limit_where_powers_of_two_can(tokens, vocab, limit):
    chunks = chunk_count(tokens, vocab, limit)
    assert tokens % chunks == 0
    assert tokens // chunks <= (limit or 2**28 // (4 * vocab)) or (tokens // chunks) % 2


def test_logits_of_a_large_batch_and_vocabulary_never_exist():
    """Compiled for 64k tokens and 128k words, without their memory: whole, the logits take 32 GiB."""

    def temporary_bytes(tokens, chunk_tokens=0):
        shapes = [((tokens // 1024, 1024, D), jnp.float32), ((2**17, D), jnp.float32)]
        shapes += [((tokens // 1024, 1024), jnp.int32), ((tokens // 1024, 1024), jnp.float32)]
        loss = lambda *arrays: cross_entropy(*arrays, chunk_tokens=chunk_tokens).nll  # noqa: E731
        lowered = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(*(jax.ShapeDtypeStruct(*shape) for shape in shapes))
        memory = lowered.compile().memory_analysis()
        assert memory is not None
        return memory.temp_size_in_bytes

    assert temporary_bytes(2**16, chunk_tokens=2**16) >= 2**35
    assert temporary_bytes(2**16) < 3 * LOGITS_BYTES
    assert temporary_bytes(2**17) < 1.1 * temporary_bytes(2**16)
