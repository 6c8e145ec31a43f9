"""Sequences longer than a context, scored window by window, each token once."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from evaluation.errors import EvaluationError
from evaluation.scoring import score
from evaluation.subject import Subject

__all__ = ["Window", "check_context", "cut_windows", "score_in_windows"]


class Window(NamedTuple):
    """Inputs `start` to `stop` of a sequence, of which those from `scored` on count; an input predicts the next."""

    start: int
    scored: int
    stop: int


def cut_windows(num_inputs: int, context: int, stride: int) -> list[Window]:
    """Cut a sequence so that every token after the first is scored once, with at most `context` tokens before it.

    The first window is full. Each other ends `stride` inputs later (the last where the sequence does) and is full too,
    so a token has at least context - stride + 1 tokens before it, or all that there are.

    >>> [tuple(window) for window in cut_windows(9, 4, 2)]
    [(0, 0, 4), (2, 4, 6), (4, 6, 8), (5, 8, 9)]
    """
    windows = [Window(0, 0, min(context, num_inputs))] if num_inputs else []
    while windows and windows[-1].stop < num_inputs:
        scored = windows[-1].stop
        stop = min(scored + stride, num_inputs)
        windows.append(Window(stop - context, scored, stop))
    return windows


def check_context(context: int, stride: int | None) -> int:
    """The stride for a context: half of it unless another is given.

    Raises:
        EvaluationError: the context is below 1, or the stride not from 1 to the context.
    """
    if context < 1:
        raise EvaluationError(f"context must be 1 token or more, got {context}; leave it out for that of the model")
    if stride is not None and not 1 <= stride <= context:
        raise EvaluationError(
            f"stride must be from 1 to the context of {context} tokens, got {stride}; without it, it is half of that"
        )
    return stride or (context + 1) // 2


def score_in_windows(
    subject: Subject,
    sequences: Sequence[np.ndarray],
    contexts: Sequence[tuple[int, int]],
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[list[np.ndarray]]:
    """Log-probabilities of every token after the first, for each (context, stride) given.

    A window that several contexts have in common is scored once.

    Returns:
        For each context and sequence float32[tokens - 1], nats.
    """
    numbers: dict[tuple[int, int, int], int] = {}
    plans = [[cut_windows(len(ids) - 1, *context) for ids in sequences] for context in contexts]
    for plan in plans:
        for sequence, windows in enumerate(plan):
            for window in windows:
                numbers.setdefault((sequence, window.start, window.stop), len(numbers))
    rows = [sequences[sequence][start : stop + 1] for sequence, start, stop in numbers]
    log_probs = [scored.log_probs for scored in score(subject, rows, progress=progress)]

    def join(sequence: int, windows: list[Window]) -> np.ndarray:
        parts = [log_probs[numbers[sequence, window.start, window.stop]] for window in windows]
        fresh = [part[window.scored - window.start :] for part, window in zip(parts, windows, strict=True)]
        return np.concatenate([np.zeros(0, np.float32), *fresh])

    return [[join(sequence, windows) for sequence, windows in enumerate(plan)] for plan in plans]
