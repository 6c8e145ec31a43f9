"""Log-probabilities that a model gives the tokens of sequences of any lengths.

Sequences are padded on the right, which a causal model does not see, to powers of two of rows and tokens, so that a
few executables serve every evaluation. Axes: B rows, L length, D model, V vocabulary, C chunks, T tokens of a chunk.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

import model
from evaluation.errors import EvaluationError
from evaluation.subject import Subject
from model import LlamaConfig
from training.loss import chunk_count

__all__ = ["Scored", "score"]

SHORTEST = 32
BATCH_TOKENS = 16_384
"""Tokens that are scored at once, unless one sequence has more."""


class Scored(NamedTuple):
    """What a model makes of a sequence of n + 1 tokens: of each token after the first."""

    log_probs: np.ndarray
    """float32[n], nats: of the token, given all before it."""
    is_greedy: np.ndarray
    """bool[n]: whether the token is the likeliest."""


def score(
    subject: Subject,
    sequences: Sequence[Sequence[int] | np.ndarray],
    *,
    batch_tokens: int = BATCH_TOKENS,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[Scored]:
    """Score sequences, each by itself from its first token on; the result does not depend on the others.

    Args:
        subject: The model.
        sequences: Token ids, each one or more; the first is context alone (say, <eod>).
        batch_tokens: Most tokens of a batch, unless one sequence has more.
        progress: Called with the tokens scored and their total.

    Raises:
        EvaluationError: a sequence is empty or has ids that the model does not know.
    """
    arrays = [_check(ids, number, subject) for number, ids in enumerate(sequences)]
    scored = [Scored(np.zeros(0, np.float32), np.zeros(0, bool)) for _ in arrays]
    total, done = sum(len(ids) for ids in arrays), 0
    for length, numbers in _batches([len(ids) - 1 for ids in arrays], batch_tokens):
        tokens_BL = np.zeros((1 << (len(numbers) - 1).bit_length(), length + 1), np.int32)
        for row, number in enumerate(numbers):
            tokens_BL[row, : len(arrays[number])] = arrays[number]
        log_probs_BL, greedy_BL = jax.device_get(
            _score_batch(subject.params, subject.config, tokens_BL[:, :-1], tokens_BL[:, 1:])
        )
        for row, number in enumerate(numbers):
            kept = slice(0, len(arrays[number]) - 1)
            scored[number] = Scored(log_probs_BL[row, kept], greedy_BL[row, kept])
            done += len(arrays[number])
        progress(done, total)
    return scored


def _check(ids: Sequence[int] | np.ndarray, number: int, subject: Subject) -> np.ndarray:
    array = np.asarray(ids, np.int64)
    rows = subject.params["embedding"].shape[0]
    if array.ndim != 1 or not array.size:
        raise EvaluationError(f"sequence {number} must have one token or more, got {ids!r}; begin with <eod>")
    outside = array[(array < 0) | (array >= rows)]
    if outside.size:
        raise EvaluationError(
            f"sequence {number} must have ids below {rows:,}, got {outside[0]}; encode it with the model's tokenizer"
        )
    return array


def _batches(num_inputs: Sequence[int], batch_tokens: int) -> Iterator[tuple[int, list[int]]]:
    """Yield (padded length, numbers of sequences), longest first; sequences of nothing to predict are left out."""
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for number, inputs in enumerate(num_inputs):
        if inputs:
            by_length[max(SHORTEST, 1 << (inputs - 1).bit_length())].append(number)
    for length in sorted(by_length, reverse=True):
        numbers, most = by_length[length], 1 << (max(1, batch_tokens // length).bit_length() - 1)
        for start in range(0, len(numbers), most):
            yield length, numbers[start : start + most]


@functools.partial(jax.jit, static_argnames="config")
def _score_batch(
    params: Any, config: LlamaConfig, tokens_BL: Int[Array, "B L"], targets_BL: Int[Array, "B L"]
) -> tuple[Float[Array, "B L"], Array]:
    """Log-probability of each target, and whether it is the likeliest; logits exist for a chunk of tokens at a time."""
    h_BLD = model.hidden_states(params, config, tokens_BL)
    head_VD = model.head_weights(params, config)
    chunks = chunk_count(targets_BL.size, head_VD.shape[0], 0)

    def score_chunk(chunk: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        h_TD, targets_T = chunk
        logits_TV = jnp.einsum("TD,VD->TV", h_TD, head_VD.astype(h_TD.dtype), preferred_element_type=jnp.float32)
        logits_TV = model.cap_logits(logits_TV, config.logits_soft_cap)
        picked_T = jnp.take_along_axis(logits_TV, targets_T[:, None], axis=-1)[:, 0]
        return picked_T - jax.nn.logsumexp(logits_TV, axis=-1), jnp.argmax(logits_TV, axis=-1) == targets_T

    h_CTD = h_BLD.reshape(chunks, -1, h_BLD.shape[-1])
    log_probs_CT, greedy_CT = jax.lax.map(score_chunk, (h_CTD, targets_BL.reshape(chunks, -1)))
    return log_probs_CT.reshape(targets_BL.shape), greedy_CT.reshape(targets_BL.shape)
