"""Prompts for repetition, and what a model says to them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from evaluation import EvaluationError
from evaluation.undertrained import verification
from evaluation.undertrained.prompts import ENDLESS, PAIRS, Prompt, choose_words, make_prompts, repetition_documents
from evaluation.undertrained.verification import probabilities_to_repeat
from tokenizer.splitting.documents import split_documents

logits_of = jax.jit(model.logits, static_argnames="config")


def naive(subject, token, prompt):
    """Greedy generation of three tokens, the whole sequence anew for each."""
    ids, found = prompt.ids(token), []
    for _ in range(3):
        padded = np.zeros((1, 64), np.int32)
        padded[0, : len(ids)] = ids
        logits = np.asarray(logits_of(subject.params, subject.config, jnp.asarray(padded))[0, len(ids) - 1], np.float64)
        weights = np.exp(logits - logits.max())
        found.append(weights[token] / weights.sum())
        ids.append(int(logits.argmax()))
    return found


PROMPTS = [
    Prompt((5, 6, 7, 8, 9), (None, 10), 1),
    Prompt((5,), (None, 10) * 4, 0),
    Prompt(tuple(range(40)), (None,), 9),
]


@pytest.mark.parametrize("window", [0, 6])
def test_probabilities_are_those_of_generation_without_a_cache(subject, monkeypatch, window):
    monkeypatch.setattr(verification, "MOST_ROWS", 4)
    # Sharper than drawn, so that what is said next differs from prompt to prompt.
    params = jax.tree.map(lambda leaf: leaf * 1.5, subject.params)
    config = dataclasses.replace(subject.config, sliding_window=window)
    sharp, seen = subject._replace(params=params, config=config), []
    tokens = [9, 77, 258, 279, 120, 33]
    found = probabilities_to_repeat(sharp, tokens, PROMPTS, lambda phase, done, total: seen.append((done, total)))
    expected = [[naive(sharp, token, prompt) for prompt in PROMPTS] for token in tokens]
    np.testing.assert_allclose(found, expected, rtol=2e-4)
    assert seen == [(4, 18), (6, 18), (10, 18), (12, 18), (16, 18), (18, 18)]
    assert found.shape == (6, 3, 3) and len({round(float(number), 9) for number in found.ravel()}) == found.size


def test_nothing_to_ask_for_asks_nothing(subject):
    assert probabilities_to_repeat(subject, [], PROMPTS).shape == (0, 3, 3)


def test_a_batch_keeps_to_its_memory(subject):
    config = dataclasses.replace(subject.config, num_layers=32, num_heads=32, num_kv_heads=8, dim=4096)
    row = 2 * 4 * 32 * 1024 * 8 * 128
    assert verification._rows(config, 1024) == 1
    assert verification._rows(config, 64) == 16 and 16 * row / 16 <= verification.CACHE_BYTES
    assert verification._rows(subject.config, 64) == 64


def test_prompts_repeat_examples_and_then_ask(tokenizer):
    words, eod = [ord("x"), ord("y"), ord("z")], tokenizer.special_tokens["<eod>"]
    first, endless, second = make_prompts(tokenizer, words, 4096, eod)
    assert [prompt.num_examples for prompt in (first, endless, second)] == [20, 0, 50]
    token = ord("Q")
    assert {prompt.ids(token)[0] for prompt in (first, endless, second)} == {eod}
    texts = [tokenizer.decode(prompt.ids(token)[1:]) for prompt in (first, endless, second)]
    lines = ["x", "y", "z"] * 20
    assert texts[0] == PAIRS[0] + "".join(f"{line}\n{line}\n\n" for line in lines[:20]) + "Q\n"
    assert texts[2] == PAIRS[1] + "".join(f"{line}\n{line}\n\n" for line in lines[:50]) + "Q\n"
    assert texts[1] == ENDLESS + "Q\nQ\nQ\nQ\n"


@pytest.mark.parametrize("max_length", [8, 70, 100, 200, 300])
def test_examples_are_as_many_as_the_model_has_room_for(tokenizer, max_length):
    for wanted, prompt in zip((20, 50), make_prompts(tokenizer, [ord("x")], max_length, 0)[::2], strict=True):
        used, more = len(prompt.ids(0)) + 3, len(tokenizer.encode("\n")) + len(tokenizer.encode("\n\n")) + 2
        assert prompt.num_examples <= wanted
        assert used <= max_length or prompt.num_examples == 0
        assert used + more > max_length or prompt.num_examples == wanted


def test_words_of_examples_are_frequent_and_of_letters(tokenizer):
    words = choose_words(tokenizer, np.arange(tokenizer.vocab_size)[::-1])
    assert len(set(words)) == len(words) == 50
    assert all(tokenizer.token_bytes[number].isalpha() for number in words)
    assert min(words) < 256 and words == sorted(words, reverse=True)


def test_documents_of_repetition_have_the_form_of_the_prompts_and_no_other_words():
    texts = ["def alpha(beta):\n\treturn beta + 12\n", "naïve \r\n words   here"]
    split = split_documents(texts, "gpt4")
    data = split.data.tobytes()
    spans = zip(split.starts[:-1], split.starts[1:], strict=True)
    known = {data[start:end].decode() for start, end in spans}
    documents = list(repetition_documents(texts, "gpt4", 40, seed=3))
    assert documents == list(repetition_documents(iter(texts), "gpt4", 40, seed=3))
    assert documents != list(repetition_documents(texts, "gpt4", 40, seed=4)) and len(set(documents)) == 40
    used = set()
    for document in documents:
        if document.startswith(ENDLESS):
            lines = document[len(ENDLESS) :].splitlines()
            assert len(lines) > 4 and len(set(lines)) == 1
        else:
            (title,) = [title for title in PAIRS if document.startswith(title)]
            blocks = document[len(title) :].split("\n\n")
            assert blocks.pop() == "" and 1 <= len(blocks) <= 50
            lines = [block.split("\n") for block in blocks]
            assert all(first == second for first, second in lines)
            lines = [first for first, _ in lines]
        used |= set(lines)
    assert used <= known and used == {word for word in known if word.strip() and not set(word) & set("\r\n")}


def test_texts_without_words_are_refused():
    with pytest.raises(EvaluationError, match="texts must have words to repeat"):
        next(repetition_documents(["\n \n"], "gpt4", 1))
