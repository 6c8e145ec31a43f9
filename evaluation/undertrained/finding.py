"""Under-trained tokens of a model: found by its output embedding, verified by asking for them.

Land and Bartolo, arXiv 2405.05417, as the SA-BPE paper (arXiv 2604.14053) uses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

import model
from evaluation.boundaries import find_begin
from evaluation.errors import EvaluationError
from evaluation.subject import Subject
from evaluation.undertrained.candidates import choose_candidates, find_round_trips
from evaluation.undertrained.categories import categorize
from evaluation.undertrained.evidence import Evidence, gather_evidence, with_history
from evaluation.undertrained.indicators import Indicator, Indicators, measure_indicators, measure_norms
from evaluation.undertrained.occurrences import Occurrences
from evaluation.undertrained.prediction import Predictor, judge_predictors
from evaluation.undertrained.prompts import Prompt, choose_words, make_prompts
from evaluation.undertrained.reference import Reference, find_reference
from evaluation.undertrained.verification import probabilities_to_repeat
from tokenizer.progress import Progress

__all__ = ["Settings", "Undertrained", "check_subject", "find_undertrained"]

LEAST_PROBABILITY = 0.01
"""A candidate whose highest probability is below this is verified."""
LEAST_PASSING = 0.95
"""A model that gives fewer of the tokens of median frequency that probability cannot copy, and gets no verdict."""
RARELY = 10


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How under-trained tokens are looked for."""

    indicator: Indicator = "cosine"
    """What candidates are chosen by, low first: distances of the output embedding's row to the mean row of unused
    tokens, the distance from (0, 0) in the plane of both, or the norm of the input embedding's row."""
    percent: float = 2.0
    """Candidates are the tokens at or under this percentile of the indicator, among those that round-trip."""
    num_controls: int = 100
    """Other tokens of median frequency that are asked for too: a model that cannot repeat them gets no verdict."""
    unused: tuple[int, ...] = ()
    """Ids known to be unused; empty: tokens with reserved names, else rows above the vocabulary."""
    begin: str | None = None
    """Special token before a prompt; None: <eod>, or what config.json has."""

    def __post_init__(self) -> None:
        choices = get_args(Indicator)
        if self.indicator not in choices:
            raise EvaluationError(f"indicator must be one of {', '.join(choices)}, got {self.indicator!r}; take cosine")
        if not 0 < self.percent <= 50:
            raise EvaluationError(f"percent must be above 0 and at most 50, got {self.percent}; the papers take 2")
        if self.num_controls < 1:
            raise EvaluationError(f"num_controls must be at least 1, got {self.num_controls}; 100 tells 1% apart")


@dataclass(frozen=True, kw_only=True)
class Undertrained:
    """What was found in a model; V tokens of its vocabulary, n candidates, m controls."""

    name: str
    fingerprint: str
    """Of the tokenizer."""
    tokens: Sequence[bytes]
    """By id; b"" for special tokens."""
    reference: Reference
    indicator: Indicator
    """That candidates were chosen by."""
    indicators: Indicators
    """float64[V] each."""
    input_norms: np.ndarray
    """float64[V]: length of the input embedding's rows (of tied ones the output's)."""
    is_eligible: np.ndarray
    """bool[V]: tokens that round-trip and are not in the reference."""
    threshold: float
    """The highest indicator of a candidate may be this."""
    candidates: np.ndarray
    """int64[n], lowest indicator first."""
    probabilities: np.ndarray
    """float32[n, prompts, steps]: of the candidates."""
    controls: np.ndarray
    """int64[m]: tokens of median frequency."""
    control_probabilities: np.ndarray
    """float32[m, prompts, steps]."""
    prompts: Sequence[Prompt]
    evidence: Evidence
    categories: Sequence[str]
    """Of the candidates."""

    @property
    def values(self) -> np.ndarray:
        """float64[V]: the indicator that candidates were chosen by."""
        return self.input_norms if self.indicator == "input_norm" else getattr(self.indicators, self.indicator)

    @property
    def highest(self) -> np.ndarray:
        """float32[n]: a candidate's highest probability over prompts and places."""
        return self.probabilities.max(axis=(1, 2), initial=0)

    @property
    def passing(self) -> float:
        """Share of the controls that the model can repeat."""
        return float((self.control_probabilities.max(axis=(1, 2), initial=0) >= LEAST_PROBABILITY).mean())

    @property
    def has_verdict(self) -> bool:
        """Whether the model can copy, so that a token that it cannot say is under-trained."""
        return self.passing >= LEAST_PASSING

    @property
    def verified(self) -> np.ndarray | None:
        """int64: candidates that the model cannot say, lowest indicator first; None without a verdict."""
        return self.candidates[self.highest < LEAST_PROBABILITY] if self.has_verdict else None

    @property
    def rarely_seen(self) -> np.ndarray | None:
        """int64: tokens that round-trip and were counted fewer than RARELY times; None where nothing was."""
        seen = self.evidence.occurrences
        return None if seen is None else np.flatnonzero(self.is_eligible & (seen < RARELY))

    def predictors(self) -> list[Predictor]:
        """How well F, R, L and occurrences tell under-trained tokens."""
        return judge_predictors(self.evidence, self.values, self.is_eligible, self.candidates, self.verified)


def check_subject(subject: Subject, settings: Settings) -> None:
    """Refuse settings that do not fit a model, before anything is counted.

    Raises:
        EvaluationError: as `find_undertrained`.
    """
    find_begin(subject, settings.begin)
    find_reference(subject.tokenizer, len(model.head_weights(subject.params, subject.config)), settings.unused)


def find_undertrained(
    subject: Subject,
    settings: Settings = Settings(),
    *,
    name: str | None = None,
    occurrences: Occurrences | None = None,
    progress: Progress | None = None,
) -> Undertrained:
    """Find the under-trained tokens of a model.

    Args:
        subject: The model.
        settings: How.
        name: What tables call the model; its own without.
        occurrences: How often training had each token (`find_occurrences` in its store).
        progress: Called with a phase, what is done of it, and its total.

    Raises:
        EvaluationError: no token is known to be unused, or a setting does not fit the model.
    """
    tokenizer = with_history(subject.tokenizer, subject.place)
    head_VD, num_tokens = model.head_weights(subject.params, subject.config), tokenizer.vocab_size
    begin = find_begin(subject, settings.begin)
    reference = find_reference(tokenizer, len(head_VD), settings.unused)
    indicators = Indicators(*(column[:num_tokens] for column in measure_indicators(head_VD, reference.ids)))
    norms = measure_norms(subject.params["embedding"])[:num_tokens]
    is_eligible = find_round_trips(tokenizer)
    is_eligible[reference.ids[reference.ids < num_tokens]] = False
    values = norms if settings.indicator == "input_norm" else getattr(indicators, settings.indicator)
    candidates, threshold = choose_candidates(values, is_eligible, settings.percent)
    evidence = gather_evidence(tokenizer, occurrences)
    is_other = is_eligible.copy()
    is_other[candidates] = False
    most_frequent = evidence.by_frequency(is_other)
    controls = _middle(most_frequent, settings.num_controls)
    prompts = make_prompts(tokenizer, choose_words(tokenizer, most_frequent), subject.max_length, begin)
    found = probabilities_to_repeat(subject, np.concatenate((candidates, controls)), prompts, progress)
    tokens = tokenizer.token_bytes
    return Undertrained(
        name=name or subject.name,
        fingerprint=tokenizer.fingerprint,
        tokens=tokens,
        reference=reference,
        indicator=settings.indicator,
        indicators=indicators,
        input_norms=norms,
        is_eligible=is_eligible,
        threshold=threshold,
        candidates=candidates,
        probabilities=found[: len(candidates)],
        controls=controls,
        control_probabilities=found[len(candidates) :],
        prompts=prompts,
        evidence=evidence,
        categories=[categorize(tokens[number], float(evidence.standing[number])) for number in candidates],
    )


def _middle(most_frequent: np.ndarray, count: int) -> np.ndarray:
    """The `count` places around the middle, or all where there are no more."""
    first = max(0, (len(most_frequent) - count) // 2)
    return most_frequent[first : first + count]
