import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import ModelError, attend, chunked
from model.attention import attend_cudnn, attend_splash, choose_kernel


def draw(rows, length, heads, kv_heads, width, seed=0):
    generator = np.random.default_rng(seed)
    shapes = [(rows, length, heads, width)] + [(rows, length, kv_heads, width)] * 2
    return [jnp.asarray(generator.standard_normal(shape), jnp.float32) for shape in shapes]


def draw_segments(rows, length, seed=0):
    return jnp.asarray(np.sort(np.random.default_rng(seed).integers(0, 4, (rows, length)), axis=1))


def dense(q, k, v, segments, window=0):
    """Differentiable, every score written out: an oracle for gradients."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    allowed = jnp.tril(jnp.ones((q.shape[1], q.shape[1]), bool))[None, None]
    if window:
        allowed &= ~jnp.tril(allowed, -window)
    if segments is not None:
        allowed &= (segments[:, :, None] == segments[:, None, :])[:, None]
    scores = jnp.where(allowed, jnp.einsum("BLNH,BSNH->BNLS", q, k) / np.sqrt(q.shape[3]), -jnp.inf)
    return jnp.einsum("BNLS,BSNH->BLNH", jax.nn.softmax(scores), v)


def gradients(function, q, k, v):
    return jax.grad(lambda q, k, v: jnp.sin(function(q, k, v)).sum(), argnums=(0, 1, 2))(q, k, v)


QUICK = [(16, 100, 0, False), (16, 100, 0, True), (8, 61, 5, False), (8, 64, 20, True)]
"""Block, length, window and whether there are segments."""
SPLITS = [(256, 33, 0), (16, 64, 0), (8, 31, 0), (5, 33, 0), (256, 33, 7), (8, 61, 5), (8, 64, 20)]
THOROUGH = [(*split, packed) for split in SPLITS for packed in (False, True)]


@pytest.mark.parametrize(
    ("block", "length", "window", "packed"),
    QUICK + [pytest.param(*case, marks=pytest.mark.slow) for case in THOROUGH if case not in QUICK],
)
def test_chunked_equals_float64_and_its_gradient_the_dense_one(
    monkeypatch, reference, quick_jit, block, length, window, packed
):
    monkeypatch.setattr(chunked, "BLOCK", block)
    # So that matrices come one at a time, all at once, or, of four, some.
    monkeypatch.setattr(chunked, "CACHE_BYTES", 4 * block**2)
    q, k, v = draw(2, length, 4, 2, 8)
    segments = draw_segments(2, length) if packed else None
    run, oracle = (
        functools.partial(attend, segments_BL=segments, window=window),
        functools.partial(dense, segments=segments, window=window),
    )
    found = quick_jit(run)(q, k, v)
    np.testing.assert_allclose(found, reference.attend(q, k, v, segments, window), atol=1e-6)
    slopes = quick_jit(functools.partial(gradients, run))(q, k, v)
    expected = quick_jit(functools.partial(gradients, oracle))(q, k, v)
    for slope, right in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(slope, right, atol=1e-5)


@pytest.mark.parametrize("window", [0, 5])
def test_queries_that_start_later_see_all_keys_before_them_or_those_of_the_window(
    monkeypatch, reference, quick_jit, window
):
    monkeypatch.setattr(chunked, "BLOCK", 8)
    q, k, v = draw(1, 40, 2, 1, 8)
    segments = draw_segments(1, 40)
    run = functools.partial(
        chunked.attend_chunked, query_segments_BL=segments[:, 21:], key_segments_BS=segments, window=window
    )
    part = quick_jit(lambda q, k, v, first: run(q, k, v, first=first))(q[:, 21:], k, v, 21)
    np.testing.assert_allclose(part, reference.attend(q, k, v, segments, window)[:, 21:], atol=1e-6)


@pytest.mark.parametrize("first_segment", [1, 7])
def test_blocks_of_documents_before_are_not_looked_at(monkeypatch, reference, quick_jit, first_segment):
    monkeypatch.setattr(chunked, "BLOCK", 8)
    q, k, v = draw(1, 64, 4, 2, 8)
    segments = jnp.repeat(jnp.array([[first_segment, 5]]), 32, axis=1)
    run = functools.partial(attend, segments_BL=segments)
    expected = reference.attend(*(x[:, 32:] for x in (q, k, v)), None, 0)
    slopes = quick_jit(functools.partial(gradients, run))
    right = slopes(q, k, v)
    # A look would make what comes out not a number: the weights there are zero, but 0 x nan is not.
    k, v = (x.at[:, :32].set(jnp.nan) for x in (k, v))
    np.testing.assert_allclose(quick_jit(run)(q, k, v)[:, 32:], expected, atol=1e-6)
    for slope, finite in zip(slopes(q, k, v), right, strict=True):
        np.testing.assert_array_equal(slope[:, 32:], finite[:, 32:])


@given(count=st.integers(1, 500), length=st.integers(1, 5000), group=st.integers(1, 300))
def test_scores_that_exist_at_once_are_those_of_a_block_of_some_matrices(count, length, group):
    tiling = chunked._tile(length, length, group, 0)
    assert tiling.queries % group == 0 and tiling.keys <= chunked.BLOCK
    assert tiling.queries <= max(group, chunked.BLOCK)
    size = chunked._matrices_at_once(count, tiling)
    assert count % size == 0
    assert size == 1 or 4 * size * tiling.queries * tiling.keys <= chunked.CACHE_BYTES * (os.cpu_count() or 1)
    assert chunked.score_bytes(count, length, group) == 4 * size * tiling.queries * tiling.keys


@settings(max_examples=20, deadline=None)
@given(position=st.integers(0, 31), seed=st.integers(0, 9))
def test_no_bit_depends_on_later_tokens(position, seed):
    q, k, v = draw(1, 32, 2, 2, 4, seed)
    later = [x.at[:, position + 1 :].add(100) for x in (k, v)]
    run = _attend_compiled()
    np.testing.assert_array_equal(run(q, k, v)[:, : position + 1], run(q, *later)[:, : position + 1])


@functools.cache
def _attend_compiled():
    return jax.jit(attend)


def test_scores_of_a_thousand_do_not_overflow(reference):
    q, k, v = (100 * x for x in draw(1, 16, 1, 1, 8))
    np.testing.assert_allclose(attend(q, k, v), reference.attend(q, k, v), atol=2e-2)


def test_bfloat16_stays_near_float64(reference, quick_jit):
    q, k, v = (jnp.asarray(x, jnp.bfloat16) for x in draw(2, 40, 4, 2, 16))
    found = quick_jit(attend)(q, k, v)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(found.astype(np.float32), reference.attend(q, k, v), atol=0.03)


@pytest.mark.parametrize("window", [0, pytest.param(128, marks=pytest.mark.slow)])
def test_memory_of_the_gradient_is_linear_in_the_length(quick_jit, window):
    def temporary_bytes(length):
        shapes = [jax.ShapeDtypeStruct((1, length, 2, 16), jnp.float32)] * 3
        run = functools.partial(gradients, functools.partial(attend, window=window))
        return quick_jit(run).lower(*shapes).compile().memory_analysis().temp_size_in_bytes

    assert temporary_bytes(16384) < 4.4 * temporary_bytes(4096)


@pytest.mark.parametrize(
    ("window", "num_looked_at"),
    [(0, 1 + 2 + 3 + 4 + 5 + 6), (8, 1 + 2 + 2 + 2 + 2 + 2), (9, 1 + 2 * 5), (10, 1 + 2 + 3 * 4)],
)
def test_blocks_of_keys_out_of_sight_are_not_looked_at(monkeypatch, window, num_looked_at):
    monkeypatch.setattr(chunked, "BLOCK", 8)
    looked_at, scores = [], chunked._scores

    def note(tiling, queries, keys, position, start):
        jax.debug.callback(lambda *at: looked_at.append(tuple(map(int, at))), position, start)
        return scores(tiling, queries, keys, position, start)

    monkeypatch.setattr(chunked, "_scores", note)
    jax.block_until_ready(attend(*draw(1, 48, 1, 1, 4), window=window))
    jax.effects_barrier()
    assert len(set(looked_at)) == len(looked_at) == num_looked_at


@pytest.mark.parametrize("window", [0, 1, 5])
def test_arguments_for_cudnn_mean_the_same_attention(monkeypatch, reference, window):
    plain = jax.nn.dot_product_attention

    def as_xla(*arrays, implementation, **options):
        assert implementation == "cudnn"
        assert options["is_causal"]  # cuDNN's window looks ahead without it
        return plain(*arrays, **options, implementation="xla")

    monkeypatch.setattr(jax.nn, "dot_product_attention", as_xla)
    q, k, v = draw(2, 24, 4, 2, 8)
    found = attend_cudnn(q, k, v, window=window)
    np.testing.assert_allclose(found, reference.attend(q, k, v, window=window), atol=1e-6)


@pytest.mark.parametrize(
    ("packed", "window"), [(True, 40), *(pytest.param(packed, 0, marks=pytest.mark.slow) for packed in (False, True))]
)
def test_splash_in_interpret_mode_equals_float64_and_its_gradient_the_dense_one(reference, quick_jit, packed, window):
    q, k, v = draw(1, 384, 2, 1, 64)
    segments = draw_segments(1, 384) if packed else None
    run = functools.partial(attend_splash, segments_BL=segments, window=window, interpret=True)
    found, slopes = quick_jit(lambda q, k, v: (run(q, k, v), gradients(run, q, k, v)))(q, k, v)
    np.testing.assert_allclose(found, reference.attend(q, k, v, segments, window), atol=1e-5)
    expected = gradients(functools.partial(dense, segments=segments, window=window), q, k, v)
    for slope, right in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(slope, right, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "platform", "dtype", "length", "packed", "chosen"),
    [
        ("auto", "cpu", "float32", 64, False, "chunked"),
        ("auto", "gpu", "bfloat16", 64, False, "cudnn"),
        ("auto", "gpu", "float32", 64, False, "chunked"),
        ("auto", "gpu", "bfloat16", 64, True, "chunked"),
        ("cudnn", "gpu", "bfloat16", 64, True, "chunked"),
        ("chunked", "gpu", "bfloat16", 64, False, "chunked"),
        ("auto", "tpu", "bfloat16", 1024, True, "splash"),
        ("auto", "tpu", "bfloat16", 64, False, "chunked"),
    ],
)
def test_kernel_is_one_that_is_exact(kernel, platform, dtype, length, packed, chosen):
    assert choose_kernel(kernel, platform, jnp.dtype(dtype), length, packed) == chosen


@pytest.mark.parametrize(
    ("kernel", "platform", "dtype", "length", "message"),
    [
        ("cudnn", "cpu", "float32", 64, "attention must be auto or chunked on cpu, got cudnn"),
        ("splash", "gpu", "bfloat16", 128, "attention must be auto, chunked or cudnn on gpu, got splash"),
        ("cudnn", "gpu", "float32", 64, "dtype must be bfloat16 with cuDNN attention, got float32"),
        ("splash", "tpu", "bfloat16", 64, "length must be a multiple of 128 for splash attention, got 64"),
    ],
)
def test_kernel_that_cannot_run_is_refused(kernel, platform, dtype, length, message):
    with pytest.raises(ModelError, match=message):
        choose_kernel(kernel, platform, jnp.dtype(dtype), length, False)
