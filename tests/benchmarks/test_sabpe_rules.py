import math

import numpy as np
import pytest

import tokenizer as tokenizers
from benchmarks.sabpe.documents import draw_documents, split_repositories
from benchmarks.sabpe.findings import model_findings, tokenizer_findings
from benchmarks.sabpe.judging import judge_draws, judge_seeds
from benchmarks.sabpe.languages import choose_languages
from benchmarks.sabpe.model_outcomes import make_outcome
from benchmarks.sabpe.models import repetitions
from benchmarks.sabpe.results import Results, as_json, measures_of
from benchmarks.sabpe.scales import DEFAULT, MAIN, PLAIN, QUICK
from benchmarks.sabpe.tables import report
from benchmarks.sabpe.usage import (
    compression,
    coverage,
    draw_weights,
    gini_index,
    measure,
    read_usage,
    write_usage,
)
from benchmarks.sabpe.vocabularies import Vocabulary, vocabularies_of
from benchmarks.verdicts import Verdict
from tokenizer import Document
from tokenizer.measures import evaluate


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    draw = np.random.default_rng(0)
    words = ["alpha", "beta", "gamma", "delta", "value", "123", "456"]
    return [
        Document(" ".join(draw.choice(words, 50)), f"r{number % 7}", ("Java", "Python")[number % 2], str(number))
        for number in range(28)
    ]


@pytest.fixture(scope="module")
def trained(documents):
    return {priority: tokenizers.train(documents, vocab_size=290, priority=priority) for priority in ("F", "F*logR*L")}


def outcome(verified: int | None, rarely: int, areas: dict[str, float]):
    predictors = [
        {"name": name, "num_tokens": 9, "correlation": area, "candidates_area": area, "verified_area": None}
        for name, area in areas.items()
    ]
    ids = None if verified is None else list(range(verified))
    told = {"tokens": 512, "passing": 1.0, "verified": ids, "rarely_seen": list(range(rarely)), "candidates": []}
    return make_outcome(told | {"predictors": predictors})


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        ([0.02, 0.021, 0.019], Verdict.HOLDS),
        ([-0.02, -0.021, -0.019], Verdict.FAILS),
        ([0.02, -0.02, 0.01], Verdict.UNSURE),
        ([0.001, 0.001, 0.001], Verdict.UNSURE),
        ([0.02], Verdict.UNSURE),
        ([0.02, math.nan, math.nan], Verdict.UNSURE),
        ([math.nan, math.nan], Verdict.UNSURE),
    ],
)
def test_seeds_need_their_whole_interval_on_one_side_of_the_bound(effects, verdict):
    assert judge_seeds("", "", "ratio", effects).verdict == verdict
    assert judge_seeds("", "", "ratio", effects, can_tell=False).verdict == Verdict.UNSURE


def test_draws_are_moved_to_the_effect_and_few_repositories_tell_nothing():
    draws = np.linspace(0.5, 1.5, 1001)
    found = judge_draws("", "", "ratio", 0.3, draws, 5)
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.1, 0.7))
    assert found.verdict == Verdict.UNSURE
    assert judge_draws("", "", "ratio", 0.5, draws, 5).verdict == Verdict.HOLDS
    assert judge_draws("", "", "ratio", -0.5, draws, 5).verdict == Verdict.FAILS
    assert judge_draws("", "", "ratio", 0.5, draws, 4).verdict == Verdict.UNSURE


def test_sizes_of_single_languages_follow_from_their_bytes_and_repositories():
    def make(language: str, count: int, size: int) -> list[Document]:
        return [Document("x" * (size // count), f"{language}{n}", language, "") for n in range(count)]

    trained = [*make("Java", 14, 3_260_000), *make("SQL", 9, 3_000_000), *make("Swift", 7, 4_000_000)]
    measured = [*make("Java", 3, 300), *make("SQL", 2, 200), *make("Swift", 3, 300)]
    (java,) = choose_languages(trained, measured, 32768)
    assert (java.name, java.num_repositories, java.vocab_size, java.thresholds) == ("Java", 14, 4096, (1, 2))
    assert choose_languages(trained, measured, 1024)[0].vocab_size == 1024
    assert choose_languages(trained, measured, 32768, most=0) == []


def test_measures_of_all_repositories_are_those_of_an_evaluation(documents, trained):
    found = evaluate({"": trained["F*logR*L"]}, documents).tokenizers[0]
    usage = measure(trained["F*logR*L"], documents)
    told = measures_of(usage, measure(trained["F"], documents))
    assert told["compression"] == pytest.approx(found.compression_rate)
    assert (told["coverage"], told["steps"]) == (found.coverage, found.training_steps)
    assert told["gini"] == pytest.approx(found.gini)
    assert told["token_length"] == pytest.approx(found.mean_token_length)
    assert told["three_digit_numbers"] == found.three_digit_numbers
    assert told["longest_name"] == len(found.name_parts) - 1


def test_a_draw_measures_the_repositories_as_often_as_they_are_drawn(documents, trained, tmp_path):
    write_usage(tmp_path / "usage.npz", measure(trained["F"], documents))
    usage = read_usage(tmp_path / "usage.npz")
    weights = draw_weights(len(usage.names), 3)
    assert weights.sum(axis=1).tolist() == [7, 7, 7]
    for row, drawn in enumerate(weights):
        copies = [each for each in documents for _ in range(drawn[usage.names.index(each.repository)])]
        found = evaluate({"": trained["F"]}, copies).tokenizers[0]
        assert compression(usage, weights)[row] == pytest.approx(found.compression_rate)
        assert coverage(usage, weights)[row] == found.coverage
        assert gini_index(usage, weights)[row] == pytest.approx(found.gini)


def test_repositories_of_a_seed_are_a_share_and_the_others(documents):
    chosen, others = split_repositories(documents, 0, 0.25)
    assert len(chosen) == 2 and chosen | others == {f"r{n}" for n in range(7)} and not chosen & others
    assert {tuple(sorted(split_repositories(documents, seed, 0.25)[0])) for seed in range(9)} != {tuple(sorted(chosen))}
    drawn = draw_documents(documents, 5000, 0)
    assert 0 < sum(len(each.text) for each in drawn) <= 5000 and len(set(drawn)) == len(drawn)
    repeated = list(repetitions(documents, 0))
    assert {each.repository for each in repeated} == {"repetition"}
    assert sum(len(each.text) for each in repeated) >= 0.01 * sum(len(each.text) for each in documents)


def test_models_that_cannot_copy_get_no_verdict_and_r_is_compared_with_l():
    good = {"F": 0.6, "R": 0.8, "L": 0.7}
    seeds = [{"plain": outcome(9, 40 + n, good), "sabpe": outcome(None, 20, good)} for n in range(3)]
    found = {one.claim: one for one in model_findings(DEFAULT, seeds)}
    verified, rarely = list(found.values())[:2]
    assert math.isnan(verified.effect) and verified.verdict == Verdict.UNSURE
    assert rarely.effect == 21 and rarely.verdict == Verdict.HOLDS
    better = found["model with F: R foretells candidates (AUC) better than L"]
    assert better.effect == pytest.approx(0.1) and better.verdict == Verdict.HOLDS
    seeds = [{"plain": outcome(9 + n, 0, good), "sabpe": outcome(2, 0, good)} for n in range(3)]
    assert model_findings(DEFAULT, seeds)[0].effect == 8
    assert {one.verdict for one in model_findings(QUICK, seeds)} == {Verdict.UNSURE}


def test_a_report_of_some_vocabularies_says_what_is_missing_and_json_has_no_infinity(documents, trained):
    usages = {
        Vocabulary("all", "", setting, 290): measure(trained[setting.priority], documents) for setting in (PLAIN, MAIN)
    }
    results = Results(usages, [], [], tokenizer_findings(QUICK, usages), 7)
    text = report(QUICK, results, "command")
    assert "Partial: 7 vocabularies and models are not done" in text and "Too small to tell anything" in text
    assert "| `F*logR*L` |" in text and "## Single languages" not in text
    told = as_json(QUICK, results)
    assert {one["verdict"] for one in told["findings"]} == {"too small to tell"}
    assert told["vocabularies"][0]["not_in_f"] == 0
    assert all(not isinstance(one["effect"], float) or math.isfinite(one["effect"]) for one in told["findings"])


def test_every_vocabulary_is_made_once_and_has_a_file_of_its_own(tmp_path):
    wanted = vocabularies_of(DEFAULT, [])
    assert len(wanted) == 6 * 11 + 2 * DEFAULT.seeds == len({each.path(tmp_path) for each in wanted})
