"""Under-trained tokens of models, as the function and the command find them."""

import json
from xml.etree import ElementTree

import jax.numpy as jnp
import numpy as np
import pytest

import model.huggingface
import tokenizer as tokenizers
from dataservice import TokenFormat, write_store
from evaluation import EvaluationError
from evaluation.__main__ import main
from evaluation.undertrained import (
    Occurrences,
    Settings,
    find_undertrained,
    finding,
    make_sections,
    make_tables,
    removal_json,
    to_json,
)
from evaluation.undertrained.candidates import find_round_trips
from tokenizer.measures.page import make_page
from training.weights import write_weights

SPREAD = 5
"""Per cent that are candidates here: 2 of 130 tokens would be few."""


def answer(monkeypatch, of_token):
    """Let a model give `of_token(id)` as the highest probability, at the second place after the third prompt."""

    def probabilities(subject, tokens, prompts, progress=None):
        found = np.zeros((len(tokens), len(prompts), 3), np.float32)
        found[:, 2, 1] = [of_token(int(token)) for token in tokens]
        return found

    monkeypatch.setattr(finding, "probabilities_to_repeat", probabilities)


def test_candidates_are_nearest_to_the_unused_and_verified_by_what_the_model_says(subject, monkeypatch):
    near = [40, 260, 97, 270, 33]
    rows = np.asarray(subject.params["head"]).copy()
    unused = [number for name, number in subject.tokenizer.special_tokens.items() if "unused" in name]
    for place, number in enumerate(near):
        rows[number] = 3 * rows[unused].mean(axis=0) + 0.001 * (place + 1) * rows[number]
    planted = subject._replace(params=subject.params | {"head": jnp.asarray(rows)})
    answer(monkeypatch, lambda token: 0.0099 if token in (260, 97) else 0.01)
    eligible = int(find_round_trips(subject.tokenizer).sum())
    found = find_undertrained(planted, Settings(percent=100 * (len(near) - 1) / (eligible - 1)))
    assert found.candidates.tolist() == near and found.reference.ids.tolist() == unused
    assert found.verified is not None and found.verified.tolist() == [260, 97]
    assert (found.values[near] <= found.threshold).all() and found.passing == 1
    assert removal_json(found)["ids"] == [97, 260]
    assert removal_json(found)["fingerprint"] == subject.tokenizer.fingerprint


def test_there_is_a_verdict_from_95_per_cent_of_the_controls_on(subject, monkeypatch):
    controls = find_controls(subject)
    assert len(controls) == 20
    for failing, has_verdict in ((1, True), (2, False)):
        answer(monkeypatch, lambda token, failing=failing: 0.001 if token in controls[:failing] else 0.5)
        found = find_undertrained(subject, Settings(num_controls=20, percent=SPREAD))
        assert found.has_verdict == has_verdict and found.passing == 1 - failing / 20
        assert (found.verified is None) == (not has_verdict)
        assert to_json(found)["verified"] == ([] if has_verdict else None)
        assert removal_json(found)["ids"] == []
        text = " ".join(table.caption + str(table.rows) for table in make_tables([found]))
        assert ("no verdict" in text) == (not has_verdict)


def find_controls(subject):
    settings = Settings(num_controls=20, percent=SPREAD)
    with pytest.MonkeyPatch.context() as patch:
        answer(patch, lambda token: 0.5)
        return find_undertrained(subject, settings).controls.tolist()


def test_controls_are_of_median_frequency_and_no_candidates(subject, monkeypatch):
    answer(monkeypatch, lambda token: 0.5)
    occurrences = np.random.default_rng(0).permutation(subject.tokenizer.vocab_size)
    candidates = find_undertrained(subject, Settings(num_controls=9)).candidates
    occurrences[candidates] = np.median(occurrences[find_round_trips(subject.tokenizer)])
    found = find_undertrained(subject, Settings(num_controls=9), occurrences=Occurrences(occurrences, "text"))
    assert found.candidates.tolist() == candidates.tolist() and not set(found.controls) & set(candidates)
    others = np.setdiff1d(np.flatnonzero(found.is_eligible), found.candidates)
    middle = np.sort(occurrences[others])[(len(others) - 9) // 2 :][:9]
    assert abs(np.median(occurrences[found.controls]) - np.median(occurrences[others])) <= 1
    assert len(set(occurrences[found.controls].tolist()) & set(middle.tolist())) >= 8
    assert found.rarely_seen is not None
    assert set(found.rarely_seen.tolist()) == {n for n in np.flatnonzero(found.is_eligible) if occurrences[n] < 10}


@pytest.mark.parametrize("indicator", ["euclidean", "plane", "input_norm", "cosine_without_mean"])
def test_candidates_are_chosen_by_the_indicator_that_is_named(subject, monkeypatch, indicator):
    answer(monkeypatch, lambda token: 0.5)
    found = find_undertrained(subject, Settings(indicator=indicator, percent=SPREAD))
    expected = found.input_norms if indicator == "input_norm" else getattr(found.indicators, indicator)
    eligible = np.flatnonzero(found.is_eligible)
    lowest = eligible[np.argsort(expected[eligible], kind="stable")][: len(found.candidates)]
    assert found.candidates.tolist() == lowest.tolist() and len(lowest) == int(np.ceil(len(eligible) * SPREAD / 100))


def test_listed_tokens_are_the_reference_and_no_candidates(subject, monkeypatch):
    answer(monkeypatch, lambda token: 0.5)
    found = find_undertrained(subject, Settings(unused=(97, 260)))
    assert found.reference.ids.tolist() == [97, 260] and not found.is_eligible[[97, 260]].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"indicator": "sine"}, "indicator must be one of cosine, .*, got 'sine'"),
        ({"percent": 0}, "percent must be above 0 and at most 50, got 0"),
        ({"num_controls": 0}, "num_controls must be at least 1, got 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(EvaluationError, match=message):
        Settings(**settings)


@pytest.fixture
def folders(subject, tmp_path, monkeypatch):
    """A run, the same model for transformers with more rows, and a store of its tokens."""
    monkeypatch.chdir(tmp_path)
    write_weights(tmp_path / "run", subject.params, subject.config, subject.tokenizer)
    more = {
        name: jnp.concatenate([leaf, jnp.full((6, leaf.shape[1]), 0.01)]) if name in ("embedding", "head") else leaf
        for name, leaf in subject.params.items()
    }
    subject.tokenizer.save(tmp_path / "folder")
    model.huggingface.write_model(tmp_path / "folder", more, subject.config, max_length=2048)
    documents = [list(range(32, 127)) * 2, list(range(256, 279)) * 30]
    write_store(tmp_path / "store", {"shard": documents}, TokenFormat.of(subject.tokenizer))
    return tmp_path


@pytest.mark.slow
def test_the_command_finds_the_same_in_a_run_and_in_its_export(folders, subject, monkeypatch, capsys):
    answer(monkeypatch, lambda token: 0.001 if token < 256 else 0.5)
    outputs = ["--json", "out.json", "--page", "out.html", "--percent", str(SPREAD)]
    assert main(["undertrained", "run", "folder", "--store", "store", *outputs]) == 0
    output = capsys.readouterr()
    run, folder = json.loads((folders / "out.json").read_text())
    assert (run["model"], folder["model"]) == ("run, step 0", "folder")
    for one in (run, folder):
        assert one["fingerprint"] == subject.tokenizer.fingerprint and len(one["reference"]["ids"]) == 3
        assert one["passing"] == folder["passing"] and one["examples"][2] == 50
    assert [c["id"] for c in run["candidates"]] == [c["id"] for c in folder["candidates"]]
    for ours, theirs in zip(run["candidates"], folder["candidates"], strict=True):
        assert ours["cosine"] == pytest.approx(theirs["cosine"], abs=1e-6)
        assert (ours["F"], ours["R"], ours["occurrences"]) == (theirs["F"], theirs["R"], theirs["occurrences"])
        assert ours["occurrences"] == (30 if ours["id"] >= 256 else 2 if ours["id"] >= 32 and ours["id"] < 127 else 0)
    for name in ("run, step 0", "folder"):
        assert f"| {name}" in output.out
    page = ElementTree.fromstring((folders / "out.html").read_text().removeprefix("<!DOCTYPE html>\n"))
    assert len(page.findall(".//{http://www.w3.org/2000/svg}svg")) == 2 * (2 + 4)
    assert "wrote out.json" in output.err and "wrote out.html" in output.err


def test_what_the_command_writes_for_removal_prune_takes(folders, subject, monkeypatch, capsys):
    from tokenizer.commands import main as tokenizer_main

    answer(monkeypatch, lambda token: 0.001 if token >= 256 and token % 2 else 0.5)
    arguments = ["undertrained", "run", "--store", "store", "--percent", "50", "--removal", "list.json"]
    assert main(arguments) == 0
    listed = json.loads((folders / "list.json").read_text())["ids"]
    assert listed and all(number % 2 and number >= 256 for number in listed)
    assert tokenizer_main(["prune", "run/tokenizer", "--output", "small", "--remove", "list.json"]) == 0
    pruned = tokenizers.Tokenizer.load("small")
    gone = set(subject.tokenizer.token_bytes) - set(pruned.token_bytes)
    assert gone and gone <= {subject.tokenizer.token_bytes[number] for number in listed}
    assert "list.json" in capsys.readouterr().err


def test_candidates_are_counted_also_where_few_or_none_are_shown(subject, monkeypatch):
    answer(monkeypatch, lambda token: 0.5)
    found = find_undertrained(subject, Settings(percent=SPREAD), name="it")
    count = len(found.candidates)
    assert make_tables([found], 1)[-1].caption == f"it: 1 of {count} candidates, the lowest indicator first"
    captions = [table.caption for table in make_tables([found], 0)]
    assert not any("lowest indicator first" in caption for caption in captions)


def test_pages_and_tables_hold_without_history_or_verdict(subject, monkeypatch):
    answer(monkeypatch, lambda token: 0.0)
    bare = subject._replace(
        tokenizer=tokenizers.Tokenizer(subject.tokenizer.pairs, list(subject.tokenizer.special_tokens))
    )
    found = find_undertrained(bare, name="bare & <b>")
    assert found.predictors() == [] and not found.has_verdict and removal_json(found)["ids"] == []
    sections = make_sections([found, found])
    assert [section.title for section in sections][1:] == ["Kinds of candidates", "Candidates and prompts"]
    ElementTree.fromstring(make_page("x", sections).removeprefix("<!DOCTYPE html>\n"))


BAD = {
    "no model": (["none"], "model must be a run"),
    "indicator": (["run", "--indicator", "sine"], "--indicator must be one of cosine"),
    "percent": (["run", "--percent", "99"], "--percent must be above 0 and at most 50"),
    "unused": (["run", "--unused", "5,999"], "--unused must be ids from 0 to 289, got 999"),
    "begin": (["run", "--begin", "<x>"], "begin must be a special token of run"),
    "stores": (["run", "--store", "store", "store"], "--store must be one for all models or one for each of 1, got 2"),
    "no store": (["run", "--store", "nowhere"], "--store must be"),
    "before a store is read": (["run", "--store", "nowhere", "--unused", "999"], "--unused must be ids from 0"),
    "removal of two": (["run", "folder", "--removal", "a.json"], "--removal must be of one model, got 2"),
    "same file": (["run", "--json", "a", "--page", "a"], "--json and --page must be different files"),
    "output nowhere": (["run", "--page", "no/a.html"], "--page must be writable"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_code_2_and_writes_nothing(folders, capsys, arguments, message):
    before = sorted(folders.rglob("*"))
    assert main(["undertrained", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and message in lines[0]
    assert sorted(folders.rglob("*")) == before
