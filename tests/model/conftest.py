"""An independent Llama in float64 NumPy: plain loops over layers and heads, every matrix of scores written out."""

import functools
import math
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import model


def _attend(q, k, v, segments=None, window=0):
    # q: (B, L, N, H); k, v: (B, L, K, H)
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    rows, length, heads, width = q.shape
    out = np.zeros_like(q)
    for row in range(rows):
        for head in range(heads):
            kv_head = head // (heads // k.shape[2])
            scores = q[row, :, head] @ k[row, :, kv_head].T / math.sqrt(width)
            allowed = np.tril(np.ones((length, length), bool))
            if window:
                allowed &= ~np.tril(allowed, -window)
            if segments is not None:
                allowed &= np.equal.outer(np.asarray(segments[row]), np.asarray(segments[row]))
            scores[~allowed] = -np.inf
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[row, :, head] = weights / weights.sum(axis=1, keepdims=True) @ v[row, :, kv_head]
    return out


def _norm(x, gain, config):
    if config.norm == "layer":
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + config.norm_epsilon) * gain
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + config.norm_epsilon) * gain


def _frequency(config, index):
    """The published code's own branches, one frequency at a time."""
    frequency = 1 / config.rope_base ** (2 * index / config.head_width)
    if config.rope_scaling == "linear":
        return frequency / config.rope_factor
    if config.rope_scaling == "llama3":
        wavelength = 2 * math.pi / frequency
        original, low, high = (
            config.rope_original_length,
            config.rope_low_frequency_factor,
            config.rope_high_frequency_factor,
        )
        if wavelength > original / low:
            return frequency / config.rope_factor
        if wavelength >= original / high:
            smooth = (original / wavelength - low) / (high - low)
            return (1 - smooth) * frequency / config.rope_factor + smooth * frequency
    return frequency


def _rotate(x, positions, config):
    # x: (B, L, N, H) as complex numbers, a pair of channels (i, i + H / 2) each
    half = config.head_width // 2
    frequencies = np.array([_frequency(config, index) for index in range(half)])
    angles = np.asarray(positions, np.float64)[..., None] * frequencies
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)[..., None, :]
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _positions(segments):
    positions = np.zeros(segments.shape, int)
    for row, column in np.ndindex(segments.shape):
        if column and segments[row, column] == segments[row, column - 1]:
            positions[row, column] = positions[row, column - 1] + 1
    return positions


def _logits(params, config, tokens, segments=None):
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    tokens = np.asarray(tokens)
    positions = np.arange(tokens.shape[1])[None] if segments is None else _positions(np.asarray(segments))
    h = params["embedding"][tokens]
    for index in range(config.num_layers):
        layer = jax.tree.map(lambda x, index=index: x[index], params["layers"])
        x = _norm(h, layer["attention_norm"]["gain"], config)
        q, k, v = x @ layer["query"], x @ layer["key"], x @ layer["value"]
        if config.qk_norm:
            q, k = _norm(q, layer["query_norm"]["gain"], config), _norm(k, layer["key_norm"]["gain"], config)
        q, k, v = (y.reshape(*tokens.shape, -1, config.head_width) for y in (q, k, v))
        attended = _attend(
            _rotate(q, positions, config), _rotate(k, positions, config), v, segments, config.sliding_window
        )
        h = h + attended.reshape(*tokens.shape, -1) @ layer["attention_output"]
        x = _norm(h, layer["feed_forward_norm"]["gain"], config)
        gate = x @ layer["gate"]
        h = h + (gate / (1 + np.exp(-gate)) * (x @ layer["up"])) @ layer["down"]
    h = _norm(h, params["final_norm"]["gain"], config)
    logits = h @ (params["embedding"] if config.tied_embeddings else params["head"]).T
    cap = config.logits_soft_cap
    return cap * np.tanh(logits / cap) if cap else logits


@pytest.fixture(scope="session")
def reference():
    """`attend`, `rotate` and `logits` in float64."""
    return SimpleNamespace(attend=_attend, rotate=_rotate, logits=_logits)


@pytest.fixture(scope="session")
def quick_jit():
    """`jax.jit` with XLA's CPU optimizations off: a sixth of the time to compile, for tests of small shapes."""
    options = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0}
    return functools.partial(jax.jit, compiler_options=options)


@pytest.fixture(scope="session")
def draw_params():
    """Parameters with gains that differ from one, so that a forgotten or swapped gain shows."""

    def draw(config, vocab_size, seed=0):
        generator = np.random.default_rng(seed)

        def leaf(shape):
            scale = 0.5 / math.sqrt(shape.shape[-2]) if len(shape.shape) == 3 else 0.3
            offset = (
                1.0 if len(shape.shape) == 1 or (shape.shape[0] == config.num_layers and len(shape.shape) == 2) else 0
            )
            return (offset + scale * generator.standard_normal(shape.shape)).astype(np.float32)

        return jax.tree.map(leaf, model.abstract_params(config, vocab_size))

    return draw
