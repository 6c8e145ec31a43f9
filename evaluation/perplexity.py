"""Loss and bits per byte of documents, each scored by itself with a bounded context.

A document is <begin> text <end>: every token of the text is predicted, then <end>. The two are told apart, so that bits
per byte compare models with different tokenizers: those of the text alone, over the same bytes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from evaluation.boundaries import Boundaries
from evaluation.held_out_documents import Documents
from evaluation.subject import Subject
from evaluation.uncertainty import Estimate, estimate_ratio
from evaluation.windows import check_context, score_in_windows
from training.evaluation_step import position_starts

__all__ = ["DocumentLosses", "Summary", "measure", "summarize"]


@dataclass(frozen=True, kw_only=True)
class DocumentLosses:
    """What a model makes of documents when no token has more than `context` tokens before it."""

    context: int
    stride: int
    """Tokens by which windows move; those before a token are at least context - stride + 1, or all there are."""
    text_nll: np.ndarray
    """float64[documents]: nats of the text of each."""
    end_nll: np.ndarray
    """float64[documents]: nats of the token after it."""
    num_tokens: np.ndarray
    """int64[documents]: tokens of the text."""
    starts: np.ndarray
    """int64[P]: first positions within a document (tokens of its text before a token) of stretches."""
    positions: np.ndarray
    """float64[P, 3]: nats, tokens and bytes of text in each stretch."""


class Summary(NamedTuple):
    """Losses of some documents together."""

    documents: int
    tokens: int
    num_bytes: int
    loss: Estimate
    """Nats per token of text."""
    bits_per_byte: Estimate
    """Of text."""
    end_loss: float
    """Nats of the token after a document, mean over documents."""

    @property
    def perplexity(self) -> float:
        """exp(loss): of a token of text."""
        return math.exp(self.loss.value)


def measure(
    subject: Subject,
    documents: Documents,
    boundaries: Boundaries,
    *,
    contexts: Sequence[int] = (),
    stride: int | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[DocumentLosses]:
    """Score documents at each context length.

    Args:
        subject: The model.
        documents: What it is to predict.
        boundaries: The tokens before and after each document.
        contexts: Most tokens before each token; none: the longest that the model was trained on.
        stride: Tokens by which windows move over a document longer than the context; None: half of the context.
        progress: Called with the tokens scored and their total.
    """
    pairs = [(context, check_context(context, stride)) for context in contexts or (subject.max_length,)]
    ids, offsets = subject.tokenizer.encode_batch([document.text for document in documents.documents])
    begin, end = ([token] for token in boundaries)
    sequences = [np.concatenate((begin, ids[start:stop], end)).astype(np.int64) for start, stop in pairwise(offsets)]
    scored = score_in_windows(subject, sequences, pairs, progress)
    return [
        _gather(sequences, log_probs, subject.tokenizer.token_lengths, *pair)
        for pair, log_probs in zip(pairs, scored, strict=True)
    ]


def summarize(losses: DocumentLosses, documents: Documents, chosen: np.ndarray | None = None) -> Summary:
    """Losses of the chosen documents (bool[documents] or their numbers; all) together, with standard errors."""
    rows = np.arange(len(documents.documents)) if chosen is None else np.arange(len(documents.documents))[chosen]
    nll, tokens, num_bytes = (
        np.asarray(values, np.float64)[rows] for values in (losses.text_nll, losses.num_tokens, documents.num_bytes)
    )
    clusters = documents.clusters[rows]
    return Summary(
        documents=len(rows),
        tokens=int(tokens.sum()),
        num_bytes=int(num_bytes.sum()),
        loss=estimate_ratio(nll, tokens, clusters),
        bits_per_byte=estimate_ratio(nll / math.log(2), num_bytes, clusters),
        end_loss=float(losses.end_nll[rows].mean()),
    )


def _gather(
    sequences: Sequence[np.ndarray],
    log_probs: Sequence[np.ndarray],
    token_lengths: np.ndarray,
    context: int,
    stride: int,
) -> DocumentLosses:
    """Sum log-probabilities by document and by position; the last of each document is that of its end."""
    starts_P = position_starts(max(len(scores) for scores in log_probs))
    positions_P3 = np.zeros((len(starts_P), 3))
    text_nll, end_nll = np.zeros((2, len(sequences)))
    for number, (ids, scores) in enumerate(zip(sequences, log_probs, strict=True)):
        nll = -scores.astype(np.float64)
        text_nll[number], end_nll[number] = nll[:-1].sum(), nll[-1]
        column = np.searchsorted(starts_P, np.arange(len(nll) - 1), side="right") - 1
        for kind, values in enumerate((nll[:-1], np.ones(len(nll) - 1), token_lengths[ids[1:-1]])):
            positions_P3[:, kind] += np.bincount(column, values, len(starts_P))
    return DocumentLosses(
        context=context,
        stride=stride,
        text_nll=text_nll,
        end_nll=end_nll,
        num_tokens=np.array([len(ids) - 2 for ids in sequences], np.int64),
        starts=starts_P,
        positions=positions_P3,
    )
