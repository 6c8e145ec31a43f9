import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from model import LlamaConfig, ModelError, Sampling, generation
from model.sampling import sample

VOCAB_SIZE = 32
CONFIG = LlamaConfig(num_layers=2, dim=32, num_heads=4, num_kv_heads=2, qk_norm=True, dtype="float32")
PROMPT = [3, 5, 7, 1, 9]
PROMPTS = [PROMPT, [4], [2, 8, 6, 4, 2, 8, 6, 4, 2, 8, 6]]
BASE = LlamaConfig(num_layers=2, dim=32, num_heads=4, dtype="float32")
CONFIGS = {
    "openlm": dataclasses.replace(BASE, norm="layer", qk_norm=True),
    "grouped-window": dataclasses.replace(BASE, num_kv_heads=2, sliding_window=4),
    "soft-cap-tied": dataclasses.replace(BASE, logits_soft_cap=1.5, tied_embeddings=True),
    "llama3": dataclasses.replace(BASE, num_kv_heads=1, rope_scaling="llama3", rope_original_length=16),
}

THOROUGH = ["openlm", "llama3"]


@pytest.fixture(scope="module", autouse=True)
def _quick_steps(quick_jit):
    with pytest.MonkeyPatch.context() as patch:
        compiled: Any = generation._extend_and_sample
        step = quick_jit(compiled.__wrapped__, static_argnames="config")
        patch.setattr(generation, "_extend_and_sample", step)
        yield


@pytest.fixture(scope="module")
def params(draw_params):
    return draw_params(CONFIG, VOCAB_SIZE)


def generate(params, prompt=PROMPT, max_new_tokens=12, **options):
    return model.generate(params, CONFIG, prompt, max_new_tokens=max_new_tokens, **options)


def test_greedy_tokens_are_those_of_recomputing_without_a_cache(params, reference):
    drawn = generate(params, temperature=0)
    logits = reference.logits(params, CONFIG, [PROMPT + drawn])[0]
    np.testing.assert_array_equal(drawn, logits.argmax(-1)[len(PROMPT) - 1 : -1])


@pytest.mark.parametrize(
    "name", ["grouped-window", "soft-cap-tied", *(pytest.param(name, marks=pytest.mark.slow) for name in THOROUGH)]
)
def test_a_batch_of_unequal_prompts_draws_what_each_would_without_a_cache(name, draw_params, reference):
    config, params = CONFIGS[name], draw_params(CONFIGS[name], VOCAB_SIZE)
    for sampling in (Sampling(0.0), Sampling(0.9, 20, 0.95)):
        outputs = model.generate_batch(params, config, PROMPTS, 9, sampling, seeds=[4, 5, 6])
        for seed, prompt, drawn in zip([4, 5, 6], PROMPTS, outputs, strict=True):
            logits = reference.logits(params, config, [prompt + drawn])[0, len(prompt) - 1 : -1]
            places = jnp.arange(len(prompt), len(prompt) + 9)
            keys = jax.vmap(lambda place, seed=seed: jax.random.fold_in(jax.random.key(seed), place))(places)
            expected = sample(jnp.asarray(logits, jnp.float32), sampling.check(), keys)
            np.testing.assert_array_equal(drawn, expected)


def test_a_row_of_a_batch_is_what_its_prompt_gives_alone_and_ends_at_its_own_stop(params):
    whole = [generate(params, prompt, seed=seed) for seed, prompt in enumerate(PROMPTS)]
    stops = {whole[0][3], whole[2][6]}
    alone = [generate(params, prompt, seed=seed, stop_ids=stops) for seed, prompt in enumerate(PROMPTS)]
    assert len({len(drawn) for drawn in alone}) > 1
    batch = model.generate_batch(params, CONFIG, PROMPTS, 12, seeds=[0, 1, 2], stop_ids=stops)
    assert batch == alone
    assert model.generate_batch(params, CONFIG, [], 12, seeds=[]) == []


def test_batches_of_like_sizes_share_a_compiled_step(params):
    def run(*lengths):
        prompts = [PROMPTS[2][:length] for length in lengths]
        model.generate_batch(params, CONFIG, prompts, 4, seeds=range(len(prompts)))
        compiled: Any = generation._extend_and_sample
        return compiled._cache_size()

    assert run(8, 5, 7) == run(6, 5, 1, 2) == run(5, 5, 8)


def test_cached_hidden_states_equal_those_of_one_pass(params, quick_jit):
    from model.generation import empty_cache, extend

    tokens = np.random.default_rng(0).integers(0, VOCAB_SIZE, (2, 12))
    cache, starts = empty_cache(CONFIG, 2, 16), np.zeros(2, int)
    step = quick_jit(extend, static_argnums=1)
    parts = []
    for first, end in [(0, 8), (8, 9), (9, 10), (10, 11), (11, 12)]:
        h, cache = step(params, CONFIG, cache, tokens[:, first:end], starts, first)
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
        keys = jax.random.split(jax.random.key(0), len(rows))
        return np.bincount(draw(rows, Sampling(**options).check(), keys), minlength=5) / len(rows)

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
