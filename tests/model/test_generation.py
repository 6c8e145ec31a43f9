import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from model import LlamaConfig, ModelError, Sampling
from model.sampling import sample

VOCAB_SIZE = 32
CONFIG = LlamaConfig(num_layers=2, dim=32, num_heads=4, num_kv_heads=2, qk_norm=True, dtype="float32")
PROMPT = [3, 5, 7, 1, 9]


@pytest.fixture(scope="module")
def params(draw_params):
    return draw_params(CONFIG, VOCAB_SIZE)


def generate(params, prompt=PROMPT, max_new_tokens=12, **options):
    return model.generate(params, CONFIG, prompt, max_new_tokens=max_new_tokens, **options)


def test_greedy_tokens_are_those_of_recomputing_without_a_cache(params, reference):
    drawn = generate(params, temperature=0)
    logits = reference.logits(params, CONFIG, [PROMPT + drawn])[0]
    np.testing.assert_array_equal(drawn, logits.argmax(-1)[len(PROMPT) - 1 : -1])


def test_cached_hidden_states_equal_those_of_one_pass(params, quick_jit):
    from model.generation import empty_cache, extend

    tokens = np.random.default_rng(0).integers(0, VOCAB_SIZE, (2, 12))
    cache = empty_cache(CONFIG, 2, 16)
    step = quick_jit(extend, static_argnums=1)
    parts = []
    for first, end in [(0, 8), (8, 9), (9, 10), (10, 11), (11, 12)]:
        h, cache = step(params, CONFIG, cache, tokens[:, first:end], first)
        parts.append(h)
    expected = quick_jit(model.hidden_states, static_argnums=1)(params, CONFIG, tokens)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), expected, atol=1e-5)


def test_seed_decides_and_one_candidate_is_greedy(params):
    assert generate(params, seed=1) == generate(params, seed=1)
    assert len({tuple(generate(params, seed=seed)) for seed in range(3)}) == 3
    greedy = generate(params, temperature=0)
    assert generate(params, top_k=1, seed=5) == greedy
    assert generate(params, top_p=1e-6, seed=5) == greedy


def test_generation_ends_with_the_first_stop_token(params):
    whole = generate(params, temperature=0)
    stop = whole[4]
    assert generate(params, temperature=0, stop_ids=[stop]) == whole[: whole.index(stop) + 1]
    assert generate(params, max_new_tokens=0) == []


def test_tokens_are_drawn_by_the_truncated_distribution(quick_jit):
    logits = np.log([0.4, 0.05, 0.3, 0.05, 0.2])
    rows = jnp.tile(jnp.asarray(logits, jnp.float32), (20_000, 1))

    draw = quick_jit(sample)

    def shares(**options):
        return np.bincount(draw(rows, Sampling(**options).check(), jax.random.key(0)), minlength=5) / len(rows)

    np.testing.assert_allclose(shares(), [0.4, 0.05, 0.3, 0.05, 0.2], atol=0.02)
    np.testing.assert_allclose(shares(top_k=2), [4 / 7, 0, 3 / 7, 0, 0], atol=0.02)
    np.testing.assert_allclose(shares(top_p=0.75), [4 / 9, 0, 3 / 9, 0, 2 / 9], atol=0.02)
    squared = np.array([0.16, 0.0025, 0.09, 0.0025, 0.04])
    np.testing.assert_allclose(shares(temperature=0.5), squared / squared.sum(), atol=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature must be 0 .greedy. or more, got -1.0; "),
        ({"top_k": -1}, "top_k must be 0 .all tokens. or more, got -1; "),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, got 0.0; "),
        ({"prompt": []}, "prompt must be a list of one token or more, got "),
        ({"prompt": [1, 32]}, "prompt ids must be below the vocabulary size 32, got 32; "),
    ],
)
def test_bad_option_is_refused(params, options, message):
    with pytest.raises(ModelError, match=message):
        generate(params, **options)
