"""A planted needle: found by a model that was trained to find others, at chance by one that was not."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import model
import tokenizer as tokenizers
from evaluation.longcontext import LongContextConfig
from evaluation.longcontext.haystack import Haystack
from evaluation.longcontext.judging import choose, choose_unread, is_answered, write_answers
from evaluation.longcontext.needle import make_needle
from evaluation.longcontext.tables import by_luck
from evaluation.subject import Subject
from model import LlamaConfig

CONFIG = LlamaConfig(num_layers=2, dim=64, num_heads=4, hidden_dim=128, dtype="float32", rope_base=1000)
LENGTHS, DEPTHS = (64, 80), (0.0, 0.5, 1.0)
ANSWER = 4  # a blank, two digits and the end of the line
STEPS, ROWS, EPOCHS = 250, 32, 2


@pytest.fixture(scope="module")
def bytes_haystack(documents) -> Haystack:
    trained = tokenizers.train([document[:3] for document in documents], vocab_size=267, priority="F")
    return Haystack(trained, documents, trained.special_tokens["<eod>"])


def needles(haystack, seed, count):
    config = LongContextConfig(digits=2, seed=seed)
    places = [(length, depth) for length in LENGTHS for depth in DEPTHS]
    return [make_needle(haystack, config, *places[n % len(places)], n // len(places)) for n in range(count)]


def ignore(done, total):
    pass


def answered(subject, items) -> float:
    """The share of items whose answer the model writes."""
    return float(np.mean(list(map(is_answered, items, write_answers(subject, items, ignore)))))


def train(params, haystack):
    """Adam on the answers of needles of another seed; rows are padded on the right, which no answer sees."""
    items = needles(haystack, 1, STEPS * ROWS // EPOCHS)
    ends = np.array([item.length + 1 for item in items])
    tokens = np.zeros((len(items), max(ends)), np.int32)
    for row, item in enumerate(items):
        answer = item.question.choices[item.question.right]
        tokens[row, : item.length + 1] = np.concatenate([item.prompt, answer, *haystack.encode("\n")])
    optimizer = optax.adam(optax.warmup_cosine_decay_schedule(0, 5e-3, 30, STEPS))

    def loss(params, tokens_BL, ends_B):
        log_probs = jax.nn.log_softmax(model.logits(params, CONFIG, tokens_BL[:, :-1]))
        places_BA = ends_B[:, None] - jnp.arange(ANSWER) - 1
        targets_BA = jnp.take_along_axis(tokens_BL, places_BA, axis=1)
        return -log_probs[jnp.arange(ROWS)[:, None], places_BA - 1, targets_BA].mean()

    @jax.jit
    def step(params, state, tokens_BL, ends_B):
        updates, state = optimizer.update(jax.grad(loss)(params, tokens_BL, ends_B), state)
        return optax.apply_updates(params, updates), state

    state = optimizer.init(params)
    for rows in np.tile(np.arange(len(items)).reshape(-1, ROWS), (EPOCHS, 1)):
        params, state = step(params, state, tokens[rows], ends[rows])
    return params


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_needle_is_found_by_a_model_trained_to_and_at_chance_by_one_that_is_not(bytes_haystack, tmp_path):
    vocab_size = bytes_haystack.tokenizer.vocab_size
    untrained = Subject(
        model.init_params(CONFIG, vocab_size, jax.random.key(0)), CONFIG, bytes_haystack.tokenizer, 80, tmp_path, None
    )
    trained = untrained._replace(params=train(untrained.params, bytes_haystack))
    items = needles(bytes_haystack, 0, 120)

    most = by_luck(0.25, len(items))
    assert choose(trained, items, ignore).mean() >= 0.9
    assert 0.5 - most <= choose(untrained, items, ignore).mean() <= most
    # Nothing in the question gives the answer away, to a model that has learnt all that there is in it.
    assert 0.5 - most <= choose_unread(trained, items, ignore).mean() <= most
    # To write all of an answer and then end is learnt later; 0.39 here.
    assert answered(trained, items[:48]) >= 0.1 and answered(untrained, items[:48]) == 0
