import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from model import LlamaConfig, ModelError, attend, selfcheck

CONFIG = LlamaConfig(dim=128, num_heads=4, num_kv_heads=2, dtype="float32", sliding_window=24)
BUCKETS = [(16, True), (16, False), (64, False)]


def dense(q, k, v, *, segments_BL=None, window=0, kernel="auto", behind=0):
    """Differentiable, every score written out; `behind` tokens after itself a query sees as well."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    places = np.arange(q.shape[1])
    distances = np.subtract.outer(places, places)
    allowed = (distances >= -behind) & (distances < (window or q.shape[1]))
    if segments_BL is not None:
        allowed &= segments_BL[0][:, None] == segments_BL[0][None, :]
    scores = jnp.where(allowed, jnp.einsum("BLNH,BSNH->BNLS", q, k) / np.sqrt(q.shape[3]), -jnp.inf)
    return jnp.einsum("BNLS,BSNH->BLNH", jax.nn.softmax(scores), v).astype(v.dtype)


def with_wrong_gradient(q, k, v, *, kernel, **options):
    return attend(jax.lax.stop_gradient(q), k, v, **options)


def without_segments(q, k, v, *, kernel, segments_BL, **options):
    return attend(q, k, v, **options)


def without_window(q, k, v, *, kernel, window, **options):
    return attend(q, k, v, **options)


def with_swapped_heads(q, k, v, *, kernel, **options):
    return attend(q, k[:, :, ::-1], v[:, :, ::-1], **options)


@pytest.fixture
def _quick(monkeypatch, quick_jit):
    monkeypatch.setattr(jax, "jit", quick_jit)


def test_the_line_names_the_kernels_that_the_buckets_use():
    line = selfcheck.check_attention(CONFIG, BUCKETS)
    assert line.startswith("attention: chunked and chunked with segments within ")
    assert selfcheck.cases_of(CONFIG, BUCKETS[1:]) == [selfcheck.Case("chunked", False)]


@pytest.mark.usefixtures("_quick")
def test_the_reference_equals_attention_written_out_and_its_derivative(monkeypatch):
    monkeypatch.setattr(selfcheck, "attend", dense)
    for config in (CONFIG, LlamaConfig(dim=128, num_heads=4, dtype="float32")):
        errors = selfcheck.measure_errors(config, [selfcheck.Case("chunked", packed) for packed in (False, True)])
        assert max(errors.values()) < 1e-5


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "wrong",
    [functools.partial(dense, behind=1), with_wrong_gradient, without_segments, without_window, with_swapped_heads],
    ids=["sees-the-next", "gradient", "segments", "window", "heads"],
)
def test_a_wrong_kernel_is_refused_by_name(monkeypatch, wrong, dtype):
    config = LlamaConfig(dim=128, num_heads=4, num_kv_heads=2, dtype=dtype, sliding_window=24)
    monkeypatch.setattr(selfcheck, "attend", wrong)
    monkeypatch.setattr(selfcheck, "choose_kernel", lambda *_: "cudnn")
    with pytest.raises(ModelError, match=r"attention by cudnn.* must be within .* got .*; set model.attention=chunked"):
        selfcheck.check_attention(config, BUCKETS[:2])


def test_a_kernel_that_does_not_run_is_refused_with_its_own_words(monkeypatch):
    monkeypatch.setattr(selfcheck, "choose_kernel", lambda *_: "cudnn")
    with pytest.raises(ModelError, match=r"attention by cudnn must run on this device, got .*; set model.attention="):
        selfcheck.check_attention(CONFIG, [(64, False)])
