"""Log-probabilities of sequences of any lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from evaluation import EvaluationError, scoring
from evaluation.scoring import score


def naive(subject, ids):
    """One sequence alone, without padding or chunks."""
    logits = model.logits(subject.params, subject.config, jnp.asarray(ids)[None, :-1])[0]
    log_probs = np.asarray(jax.nn.log_softmax(logits))
    return log_probs[np.arange(len(ids) - 1), ids[1:]], log_probs.argmax(-1) == ids[1:]


@pytest.mark.parametrize("batch_tokens", [1, 128])
def test_scores_are_those_of_each_sequence_alone(subject, batch_tokens):
    generator = np.random.default_rng(0)
    lengths = [2, 40, 1, 33, 34, 2]
    sequences = [generator.integers(0, subject.tokenizer.vocab_size, length) for length in lengths]
    for ids, scored in zip(sequences, score(subject, sequences, batch_tokens=batch_tokens), strict=True):
        if len(ids) == 1:
            assert len(scored.log_probs) == len(scored.is_greedy) == 0
            continue
        log_probs, is_greedy = naive(subject, ids)
        np.testing.assert_allclose(scored.log_probs, log_probs, atol=1e-5)
        np.testing.assert_array_equal(scored.is_greedy, is_greedy)


def test_logits_in_chunks_give_the_same_scores(subject, monkeypatch):
    ids = np.random.default_rng(1).integers(0, subject.tokenizer.vocab_size, 60)
    (whole,) = score(subject, [ids])
    monkeypatch.setattr(scoring, "chunk_count", lambda *arguments: 8)
    jax.clear_caches()
    (chunked,) = score(subject, [ids])
    jax.clear_caches()
    np.testing.assert_allclose(chunked.log_probs, whole.log_probs, atol=1e-6)
    np.testing.assert_array_equal(chunked.is_greedy, whole.is_greedy)


def test_progress_ends_at_the_total(subject):
    seen = []
    score(subject, [[1, 2, 3]] * 5, batch_tokens=64, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(6, 15), (12, 15), (15, 15)]


@pytest.mark.parametrize("ids", [[], [-1, 2], [3, 10**6]])
def test_ids_that_the_model_does_not_know_are_refused(subject, ids):
    with pytest.raises(EvaluationError, match="sequence 1 must have"):
        score(subject, [[1], ids])
