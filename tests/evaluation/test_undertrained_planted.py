"""Tokens kept out of all that a small model is trained on are found, and no others."""

import jax
import numpy as np
import optax
import pytest

import model
import tokenizer as tokenizers
from evaluation.subject import Subject
from evaluation.undertrained import Occurrences, find_undertrained
from evaluation.undertrained.candidates import find_round_trips
from evaluation.undertrained.prompts import ENDLESS, PAIRS
from evaluation.undertrained.verification import probabilities_to_repeat
from model import LlamaConfig

LENGTH, ROWS, STEPS = 64, 32, 500
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "value",
    "total",
    "index",
    "result",
    "items",
    "count",
    "return",
    "lambda",
    "class",
    "import",
    "while",
    "yield",
]


@pytest.fixture(scope="module")
def vocabulary():
    """A tokenizer, the 2% of its tokens that are planted, and rows of repeated lines in which all others are."""
    draw = np.random.default_rng(0)
    text = " ".join(draw.choice(WORDS) + str(draw.integers(1000)) for _ in range(3000))
    tokenizer = tokenizers.train([(text, "a", "python"), (text[::-1], "b", "js")], vocab_size=370, priority="F")
    eligible = np.flatnonzero(find_round_trips(tokenizer))
    planted = np.sort(draw.choice(eligible[eligible >= 256], len(eligible) // 50, replace=False))
    known = np.setdiff1d(eligible, planted)
    line, blank, eod = tokenizer.encode("\n"), tokenizer.encode("\n\n"), tokenizer.special_tokens["<eod>"]
    rows = []
    for number in range(4096):
        if number % 4 == 3:
            ids = [eod, *tokenizer.encode(ENDLESS), *[draw.choice(known), *line] * LENGTH]
        else:
            ids = [eod, *tokenizer.encode(PAIRS[number % 2])]
            while len(ids) <= LENGTH:
                word = draw.choice(known)
                ids += [word, *line, word, *blank]
        rows.append(ids[: LENGTH + 1])
    return tokenizer, planted, np.array(rows)


def train(rows_NL, config, vocab_size):
    """Parameters after STEPS steps of AdamW on rows drawn at random."""
    params = model.init_params(config, vocab_size, jax.random.key(0))
    rates = optax.warmup_cosine_decay_schedule(0, 3e-3, 40, STEPS)
    optimizer = optax.adamw(rates, b2=0.95, weight_decay=0.1)

    def loss_of(params, batch_BL):
        logits_BLV = model.logits(params, config, batch_BL[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits_BLV, batch_BL[:, 1:]).mean()

    @jax.jit
    def step(params, state, batch_BL):
        updates, state = optimizer.update(jax.grad(loss_of)(params, batch_BL), state, params)
        return optax.apply_updates(params, updates), state

    state, draw = optimizer.init(params), np.random.default_rng(1)
    for _ in range(STEPS):
        params, state = step(params, state, rows_NL[draw.integers(len(rows_NL), size=ROWS)])
    return params


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_planted_tokens_are_verified_and_no_trained_one(vocabulary, tmp_path):
    tokenizer, planted, rows_NL = vocabulary
    config = LlamaConfig(num_layers=2, dim=64, num_heads=4, hidden_dim=128, dtype="float32", remat="none")
    drawn = model.init_params(config, tokenizer.vocab_size, jax.random.key(0))
    untrained = Subject(drawn, config, tokenizer, LENGTH, tmp_path, None)
    trained = untrained._replace(params=train(rows_NL, config, tokenizer.vocab_size))
    occurrences = Occurrences(np.bincount(rows_NL.ravel(), minlength=tokenizer.vocab_size), "all rows")

    found = find_undertrained(trained, occurrences=occurrences)
    assert found.has_verdict and found.verified is not None
    assert set(planted) <= set(found.candidates)
    assert sorted(found.verified) == planted.tolist()
    everything = np.flatnonzero(found.is_eligible)
    highest = probabilities_to_repeat(trained, everything, found.prompts).max(axis=(1, 2))
    assert everything[highest < 0.01].tolist() == planted.tolist()
    (by_count,) = [one for one in found.predictors() if one.name == "occurrences"]
    assert by_count.verified_area == 1

    nothing = find_undertrained(untrained, occurrences=occurrences)
    assert nothing.passing < 0.5 and nothing.verified is None
