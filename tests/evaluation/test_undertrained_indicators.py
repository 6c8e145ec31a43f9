"""Distances to unused tokens, the tokens known to be unused, candidates, and what is known beforehand."""

import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dataservice import TokenFormat, write_store
from evaluation import EvaluationError
from evaluation.undertrained.candidates import choose_candidates, find_round_trips
from evaluation.undertrained.categories import CATEGORIES, categorize
from evaluation.undertrained.evidence import gather_evidence, with_history
from evaluation.undertrained.indicators import measure_indicators, measure_norms
from evaluation.undertrained.occurrences import Occurrences, count_occurrences
from evaluation.undertrained.prediction import area_under_curve, judge_predictors, rank_correlation
from evaluation.undertrained.reference import find_reference
from tokenizer import Tokenizer


def cosine_distances(rows, other):
    return [1 - row @ other / np.sqrt((row @ row) * (other @ other)) for row in rows]


@pytest.mark.parametrize("as_array", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("block_bytes", [1, 8 * 12 * 7, 1 << 20])
def test_indicators_are_those_of_plain_float64(as_array, block_bytes):
    rows = np.random.default_rng(0).normal(size=(50, 12)).astype(np.float32) * np.linspace(1, 3, 12, dtype=np.float32)
    rows += 2
    found = measure_indicators(as_array(rows), np.array([3, 30, 49]), block_bytes)
    rows = rows.astype(np.float64)
    unused = (rows[3] + rows[30] + rows[49]) / 3
    mean = rows.sum(axis=0) / 50
    component = np.linalg.svd(rows - mean)[2][0]
    without = rows - np.outer(rows @ component, component)
    unused_without = unused - (unused @ component) * component
    np.testing.assert_allclose(found.cosine, cosine_distances(rows, unused), atol=1e-12)
    np.testing.assert_allclose(found.cosine_without_mean, cosine_distances(rows - mean, unused - mean), atol=1e-12)
    np.testing.assert_allclose(found.cosine_without_component, cosine_distances(without, unused_without), atol=1e-9)
    euclidean = [np.sqrt(((row - unused) ** 2).sum()) for row in rows]
    np.testing.assert_allclose(found.euclidean, euclidean, atol=1e-12)
    np.testing.assert_allclose(
        found.plane, [np.sqrt(c**2 + e**2) for c, e in zip(found.cosine, euclidean, strict=True)]
    )
    np.testing.assert_allclose(measure_norms(as_array(rows)), np.sqrt((rows**2).sum(axis=1)), rtol=1e-6)


def test_a_row_of_zeros_has_no_direction_and_a_reference_of_zeros_is_refused():
    rows = np.random.default_rng(0).normal(size=(9, 4))
    rows[5] = 0
    assert measure_indicators(rows, np.array([1])).cosine[5] == 1
    with pytest.raises(EvaluationError, match="mean row of the unused tokens must have a direction, got zeros"):
        measure_indicators(rows, np.array([5]))


def test_memory_is_a_block_and_the_results_whatever_the_rows():
    rows = np.ones((40_000, 64), np.float32)  # 20 MB in float64
    rows[7] = 2
    tracemalloc.start()
    measure_indicators(rows, np.array([7]), block_bytes=1 << 18)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * 4 * 8 * len(rows) + (4 << 20)


RESERVED = ("<|unused_token_0|>", "<|reserved_special_token_12|>", "<unused3>", "[unused7]")


def test_unused_tokens_are_those_listed_or_reserved_or_rows_above(tokenizer):
    ours = [number for name, number in tokenizer.special_tokens.items() if "unused" in name]
    assert len(ours) == 3 and find_reference(tokenizer, 400).ids.tolist() == ours
    assert find_reference(tokenizer, 400, [9, 5, 9]).ids.tolist() == [5, 9]
    named = Tokenizer(tokenizer.pairs, ["<eod>", *RESERVED, "<mask1>", "unused_token_1"])
    assert find_reference(named, named.vocab_size).ids.tolist() == [named.special_tokens[name] for name in RESERVED]
    plain = Tokenizer(tokenizer.pairs, ["<eod>"])
    found = find_reference(plain, plain.vocab_size + 2)
    assert found.ids.tolist() == [plain.vocab_size, plain.vocab_size + 1] and "above" in found.source
    with pytest.raises(EvaluationError, match="model must have tokens that are known to be unused"):
        find_reference(plain, plain.vocab_size)
    with pytest.raises(EvaluationError, match="unused must be ids from 0 to 399, got 400"):
        find_reference(tokenizer, 400, [400])


def test_round_trips_are_those_of_one_token_at_a_time(tokenizer):
    shuffled = Tokenizer(tokenizer.pairs, ["<eod>"], ids=np.random.default_rng(0).permutation(280))
    # It has U+FFFD, as which parts of characters are shown.
    replacing = Tokenizer(np.array([[0xEF, 0xBF], [256, 0xBD]]), ["<eod>"])
    for one in (tokenizer, shuffled, replacing):
        expected = [one.encode(one.decode([number])) == [number] for number in range(one.vocab_size)]
        for number in one.special_tokens.values():
            assert not expected[number]
        assert find_round_trips(one).tolist() == expected
        assert not expected[int(one.ids[0xC3])] and expected[int(one.ids[ord("a")])]


def test_candidates_are_at_or_under_the_percentile_of_eligible_tokens():
    generator = np.random.default_rng(0)
    values, is_eligible = generator.integers(0, 40, 500).astype(float), generator.random(500) < 0.7
    candidates, threshold = choose_candidates(values, is_eligible, 2)
    assert threshold == np.percentile(values[is_eligible], 2)
    expected = [number for number in range(500) if is_eligible[number] and values[number] <= threshold]
    assert sorted(candidates.tolist()) == expected and len(expected) >= 0.02 * is_eligible.sum()
    assert (np.diff(values[candidates]) >= 0).all()


KINDS = {
    "non-Latin": ["д", " имя", "東京", "aд", "_ш"],
    "punctuation": ["==", " );", "_", "\n}\n", "->", "’", " €"],
    "upper-case Latin": ["HTTP", " X", ".IO", "É"],
    "names": ["foo", " fooBar", "_max_value2", ".append", "MAX_VALUE", "naïve", "x1"],
    "other": [" ", "\n\n", "12", " 7", "\0", "foo()", "a.b", "if (x"],
}


@pytest.mark.parametrize("category", KINDS)
def test_categories_follow_their_rules(category):
    assert {text: categorize(text.encode(), 0.01) for text in KINDS[category]} == dict.fromkeys(
        KINDS[category], category
    )
    assert {categorize(text.encode(), 0.0099) for text in KINDS[category]} == {"intermediate"}
    assert category in CATEGORIES


def test_evidence_is_what_merges_and_counts_say(tokenizer):
    generator = np.random.default_rng(0)
    own = Tokenizer(
        tokenizer.pairs,
        list(tokenizer.special_tokens),
        ids=generator.permutation(tokenizer.vocab_size),
        merges=tokenizer.merges,
    )
    seen = generator.integers(0, 3, own.vocab_size)
    counted, uncounted = gather_evidence(own, Occurrences(seen, "x")), gather_evidence(own)
    by_place, known = own.ids.tolist(), own.merges
    assert known is not None
    made = {place: int(seen[by_place[place]]) for place in range(256 + len(own.pairs))}
    for merge in reversed(range(len(own.pairs))):
        for part in own.pairs[merge].tolist():
            made[part] += made[256 + merge]
    for merge in range(len(own.pairs)):
        number = by_place[256 + merge]
        assert uncounted.frequency[number] == known.frequency[merge]
        assert (uncounted.repositories[number], uncounted.languages[number]) == (
            known.repositories[merge],
            known.languages[merge],
        )
        moved = sum(
            int(known.frequency[other]) * other_pair.count(256 + merge)
            for other, other_pair in enumerate(own.pairs.tolist())
        )
        assert uncounted.final_frequency[number] == max(0, known.frequency[merge] - moved)
        assert uncounted.standing[number] == uncounted.final_frequency[number] / known.frequency[merge]
        if made[256 + merge]:
            assert counted.standing[number] == seen[number] / made[256 + merge]
    assert uncounted.frequency[own.ids[:256]].sum() == 0 and np.isnan(uncounted.standing[own.ids[:256]]).all()


def test_the_most_frequent_come_first_by_what_is_known(tokenizer):
    is_eligible = find_round_trips(tokenizer)
    seen = np.arange(tokenizer.vocab_size)[::-1]
    assert (
        gather_evidence(tokenizer, Occurrences(seen, "x")).by_frequency(is_eligible).tolist()
        == np.flatnonzero(is_eligible).tolist()
    )
    by_merges = gather_evidence(tokenizer)
    order = by_merges.by_frequency(is_eligible)
    assert order.min() >= 256 and (np.diff(by_merges.final_frequency[order]) <= 0).all()
    unknown = gather_evidence(Tokenizer(tokenizer.pairs)).by_frequency(np.ones(279, bool))
    assert unknown.tolist() == list(range(279))


def test_history_is_read_from_beside_an_exported_tokenizer(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "exported")
    imported = Tokenizer.from_huggingface(tmp_path / "exported")
    assert imported.merges is None
    found = with_history(imported, tmp_path / "exported")
    assert found.merges is not None and found.fingerprint == imported.fingerprint
    other = Tokenizer(tokenizer.pairs[:5])
    assert with_history(other, tmp_path / "exported") is other and with_history(other, tmp_path) is other


def test_occurrences_are_counted_over_all_shards_and_blocks(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("evaluation.undertrained.occurrences.BLOCK_TOKENS", 7)
    generator = np.random.default_rng(0)
    shards = {f"s{n}": [generator.integers(0, 250, length).tolist() for length in (3, 20, 1)] for n in range(3)}
    store = write_store(tmp_path / "store", shards, TokenFormat.of(tokenizer))
    expected = np.zeros(tokenizer.vocab_size, int)
    for documents in shards.values():
        expected[tokenizer.special_tokens["<eod>"]] += 4
        for document in documents:
            for number in document:
                expected[number] += 1
    assert count_occurrences(store, tokenizer.vocab_size).tolist() == expected.tolist()


def test_area_and_correlation_are_those_of_pairs_and_of_scipy():
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 9, 60), generator.normal(size=60)
    is_positive = generator.random(60) < 0.3
    wins = [
        1.0 if first[i] > first[j] else 0.5 if first[i] == first[j] else 0.0
        for i in np.flatnonzero(is_positive)
        for j in np.flatnonzero(~is_positive)
    ]
    assert area_under_curve(first, is_positive) == pytest.approx(np.mean(wins))
    assert rank_correlation(first, second) == pytest.approx(stats.spearmanr(first, second)[0])
    assert area_under_curve(first, np.zeros(60, bool)) is None and rank_correlation(np.ones(9), second[:9]) is None


def test_predictors_judge_only_tokens_of_which_they_are_known(tokenizer):
    is_eligible = find_round_trips(tokenizer)
    evidence = gather_evidence(tokenizer)
    values = evidence.repositories * 1.0
    least = np.flatnonzero(is_eligible & (evidence.repositories == 1))
    predictors = {one.name: one for one in judge_predictors(evidence, values, is_eligible, least, None)}
    assert set(predictors) == {"F", "R", "L"}
    assert predictors["R"].num_tokens == (is_eligible[256:279]).sum()
    assert predictors["R"].correlation == pytest.approx(1) and predictors["R"].candidates_area == 1
    assert predictors["R"].verified_area is None
    seen = gather_evidence(tokenizer, Occurrences(np.arange(tokenizer.vocab_size), "x"))
    names = [one.name for one in judge_predictors(seen, values, is_eligible, least, least)]
    assert names == ["F", "R", "L", "occurrences"]
