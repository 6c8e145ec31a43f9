"""The findings that are looked for. Written before anything was run; in every effect more is what the claim says."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.sabpe.judging import Found, judge_draws, judge_seeds
from benchmarks.sabpe.model_outcomes import ModelOutcome
from benchmarks.sabpe.scales import MAIN, PLAIN, SINGLE, Scale
from benchmarks.sabpe.usage import Usage, compression, coverage, draw_weights, gini_index
from benchmarks.sabpe.vocabularies import Vocabulary
from benchmarks.tokenizer_priorities import Setting

__all__ = ["Gain", "language_findings", "model_findings", "single_gains", "tokenizer_findings"]

Measure = Callable[[Usage, np.ndarray], np.ndarray]
"""Of a vocabulary under weights of repositories, int64[D, R]: float64[D]."""
REPOSITORIES_4, LANGUAGES_4, PLAIN_LANGUAGES_4 = (
    Setting("F*logR*L", 4, 1),
    Setting("F*logR*L", 1, 4),
    Setting("F", 1, 4),
)
DIFFERENT = 10_000
"""Tokens that are not in plain BPE, as the paper reports of 32,768."""
NEAR_900 = 890
MOST_PARTS = 5


class Claim(NamedTuple):
    """One vocabulary against the best of others on the same documents."""

    text: str
    measure: Measure
    ours: Setting
    rivals: tuple[Setting, ...]
    is_ratio: bool = True
    """The effect is ours over theirs, less 1; else theirs less ours, of what should be small."""


OTHERS = tuple(Setting(priority, 1, 1) for priority in ("F*L", "F*log(R+1)", "F*logR", "F*log(R+1)*L"))
CLAIMS = (
    Claim("compression of unseen repositories: F*logR*L over F", compression, MAIN, (PLAIN,)),
    Claim("compression of unseen repositories: F*logR over F", compression, Setting("F*logR", 1, 1), (PLAIN,)),
    Claim("compression: F*logR*L over the best other priority", compression, MAIN, OTHERS),
    Claim("compression: F*logR*L with R of at least 4 over none", compression, REPOSITORIES_4, (MAIN,)),
    Claim("distinct tokens used: F*logR*L over F", coverage, MAIN, (PLAIN,)),
    Claim("distinct tokens used: F*logR over F", coverage, Setting("F*logR", 1, 1), (PLAIN,)),
    Claim("Gini over languages: F*logR*L below F", gini_index, MAIN, (PLAIN,), False),
    Claim("Gini over languages: F with L of at least 4 below F", gini_index, PLAIN_LANGUAGES_4, (PLAIN,), False),
    Claim("Gini over languages: F*logR*L with L of at least 4 below none", gini_index, LANGUAGES_4, (MAIN,), False),
    Claim("compression: F*logR*L with L of at least 4 over none", compression, LANGUAGES_4, (MAIN,)),
)


class SeedClaim(NamedTuple):
    """F*logR*L against F, both learnt from the repositories of a seed."""

    text: str
    unit: str
    effect: Callable[[Usage, Usage], float]


SEED_CLAIMS = (
    SeedClaim(
        "compression of unseen repositories: F*logR*L over F",
        "ratio",
        lambda ours, plain: _gain(compression, ours, plain),
    ),
    SeedClaim("distinct tokens used: F*logR*L over F", "ratio", lambda ours, plain: _gain(coverage, ours, plain)),
    SeedClaim(
        "shorter tokens: mean length of F over that of F*logR*L",
        "ratio",
        lambda ours, plain: plain.mean_length / ours.mean_length - 1,
    ),
    SeedClaim(
        "three-digit numbers: F*logR*L more than F",
        "tokens",
        lambda ours, plain: ours.three_digit_numbers - plain.three_digit_numbers,
    ),
    SeedClaim(
        f"three-digit numbers: F*logR*L more than {NEAR_900} of 900",
        "tokens",
        lambda ours, _: ours.three_digit_numbers - NEAR_900,
    ),
    SeedClaim(
        f"tokens that F has not: F*logR*L more than {DIFFERENT:,}",
        "tokens",
        lambda ours, plain: len(set(ours.tokens) - set(plain.tokens)) - DIFFERENT,
    ),
    SeedClaim(
        f"F*logR*L has no name of more than {MOST_PARTS} parts",
        "parts",
        lambda ours, _: MOST_PARTS + 0.5 - ours.longest_name,
    ),
)


def tokenizer_findings(scale: Scale, usages: Mapping[Vocabulary, Usage]) -> list[Found]:
    """What vocabularies of all languages say."""
    by_setting = {each.setting: usage for each, usage in usages.items() if each.kind == "all"}
    found = []
    for claim in CLAIMS:
        rivals = [by_setting[setting] for setting in claim.rivals if setting in by_setting]
        if claim.ours not in by_setting or not rivals:
            continue
        ours = by_setting[claim.ours]
        weights_DR = draw_weights(len(ours.names), scale.draws)
        (effect,), draws = (_effects(claim, ours, rivals, each) for each in (np.ones_like(weights_DR[:1]), weights_DR))
        unit, many = "ratio" if claim.is_ratio else "Gini", len(ours.names)
        found.append(judge_draws("tokenizers", claim.text, unit, effect, draws, many, can_tell=scale.can_tell))
    seeds = [
        {each.setting: usage for each, usage in usages.items() if each.kind == "seed" and each.of == str(seed)}
        for seed in range(scale.seeds)
    ]
    pairs = [(both[MAIN], both[PLAIN]) for both in seeds if len(both) == 2]
    for claim in SEED_CLAIMS if pairs else ():
        effects = [float(claim.effect(*pair)) for pair in pairs]
        found.append(judge_seeds("tokenizers", claim.text, claim.unit, effects, can_tell=scale.can_tell))
    return found


class Gain(NamedTuple):
    """Of one vocabulary over another."""

    effect: float
    draws: np.ndarray
    """float64[D]: the same over draws."""
    num_repositories: int
    """That are drawn."""


def single_gains(usages: Mapping[Vocabulary, Usage], measure: Measure, draws: int) -> dict[str, Gain]:
    """F*logR over F in every language."""
    single = {(each.of, each.setting): usage for each, usage in usages.items() if each.kind == "language"}
    found = {}
    for number, name in enumerate(dict.fromkeys(name for name, _ in single)):
        ours, plain = single.get((name, Setting(SINGLE, 1, 1))), single.get((name, PLAIN))
        if ours is None or plain is None:
            continue
        weights_DR = draw_weights(len(ours.names), draws, seed=number + 1)
        values = measure(ours, weights_DR) / measure(plain, weights_DR) - 1
        found[name] = Gain(_gain(measure, ours, plain), values, len(ours.names))
    return found


def language_findings(scale: Scale, usages: Mapping[Vocabulary, Usage]) -> list[Found]:
    """What single languages say together: the mean gain over them, their repositories drawn."""
    found = []
    for text, measure in (("compression of unseen repositories", compression), ("distinct tokens used", coverage)):
        gains = single_gains(usages, measure, scale.draws)
        if not gains:
            continue
        effect = float(np.mean([gain.effect for gain in gains.values()]))
        draws = np.mean([gain.draws for gain in gains.values()], axis=0)
        many = sum(gain.num_repositories for gain in gains.values())
        claim = f"{text}: {SINGLE} over F, mean of {len(gains)} single languages"
        found.append(judge_draws("languages", claim, "ratio", effect, draws, many, can_tell=scale.can_tell))
    return found


def model_findings(scale: Scale, seeds: Sequence[Mapping[str, ModelOutcome]]) -> list[Found]:
    """What models say: each seed has outcomes by arm."""
    whole = [arms for arms in seeds if {"plain", "sabpe"} <= set(arms)]
    found = []

    def add(claim: str, unit: str, effects: list[float]) -> None:
        if effects:
            found.append(judge_seeds("models", claim, unit, effects, can_tell=scale.can_tell))

    for text, name in (
        ("verified under-trained tokens: fewer with F*logR*L than with F", "verified"),
        ("tokens seen fewer than 10 times in training: fewer with F*logR*L than with F", "rarely_seen"),
    ):
        add(text, "tokens", [getattr(arms["plain"], name) - getattr(arms["sabpe"], name) for arms in whole])
    for arm, title in (("plain", "F"), ("sabpe", "F*logR*L")):
        outcomes = [arms[arm] for arms in seeds if arm in arms]
        for rival in ("L", "F"):
            for column, what, unit in (
                ("candidates_area", "candidates (AUC)", "area"),
                ("verified_area", "verified tokens (AUC)", "area"),
                ("correlation", "the indicator (rank correlation)", "correlation"),
            ):
                effects = [one.predictors["R"][column] - one.predictors[rival][column] for one in outcomes]
                add(f"model with {title}: R foretells {what} better than {rival}", unit, effects)
    return found


def _effects(claim: Claim, ours: Usage, rivals: Sequence[Usage], weights_DR: np.ndarray) -> np.ndarray:
    values, others = claim.measure(ours, weights_DR), [claim.measure(rival, weights_DR) for rival in rivals]
    return values / np.max(others, axis=0) - 1 if claim.is_ratio else np.min(others, axis=0) - values


def _gain(measure: Measure, ours: Usage, plain: Usage) -> float:
    """Of all repositories, each once."""
    once_1R = np.ones((1, len(ours.names)), np.int64)
    return float(measure(ours, once_1R)[0] / measure(plain, once_1R)[0] - 1)
