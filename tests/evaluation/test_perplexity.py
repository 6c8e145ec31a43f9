"""Loss and bits per byte of documents, in all and in parts."""

import json
import math
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
import tokenizer as tokenizers
from evaluation import EvaluationError
from evaluation.__main__ import main
from evaluation.boundaries import Boundaries, find_begin, find_boundaries
from evaluation.held_out_documents import Documents, take_documents
from evaluation.perplexity import measure, summarize
from evaluation.perplexity_groups import best_and_worst, by_language, by_length, by_repository, rankable
from evaluation.perplexity_page import write_perplexity_page
from evaluation.perplexity_tables import Comparison, differences, make_tables, to_json
from tokenizer.corpus import Document

# Of fewer than 32 tokens, and few windows: so one shape is compiled for both models.
TEXTS = ["def alpha(beta):\n", "let gamma = alpha(7);\n" * 2, "é", "return 'é' * 12\n", "x" * 12]
SOURCES = [("a", "python"), ("b", "js"), ("", "js"), ("a", "python"), ("c", "")]
LOGITS = jax.jit(model.logits, static_argnums=1)


@pytest.fixture(scope="module")
def documents():
    made = [Document(text, *source, f"{n}") for n, (text, source) in enumerate(zip(TEXTS, SOURCES, strict=True))]
    return Documents(documents=made, source="made up")


@pytest.fixture(scope="module")
def losses(subject, documents):
    return measure(subject, documents, find_boundaries(subject), contexts=(8, 32), stride=4)


@pytest.fixture(scope="module")
def other(subject):
    """The same weights with another vocabulary of that size, which knows these texts."""
    trained = tokenizers.train([(text * 3, "a", "x") for text in TEXTS], vocab_size=290, priority="F")
    assert trained.fingerprint != subject.tokenizer.fingerprint
    return subject._replace(tokenizer=trained, place=Path("other"), step=7)


def naive_nll(subject, text):
    """float64: of every token of a text and of <eod> after it, the text at once."""
    eod = subject.tokenizer.special_tokens["<eod>"]
    ids = [eod, *subject.tokenizer.encode(text), eod]
    assert len(ids) <= 33
    padded = jnp.pad(jnp.asarray(ids), (0, 33 - len(ids)))
    logits = np.asarray(LOGITS(subject.params, subject.config, padded[None, :-1])[0], np.float64)[: len(ids) - 1]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -log_probs[np.arange(len(ids) - 1), ids[1:]]


def test_losses_are_those_of_each_text_alone_with_its_end_told_apart(subject, documents, losses):
    _, whole = losses
    naive = [naive_nll(subject, text) for text in TEXTS]
    np.testing.assert_allclose(whole.text_nll, [nll[:-1].sum() for nll in naive], rtol=1e-5)
    np.testing.assert_allclose(whole.end_nll, [nll[-1] for nll in naive], rtol=1e-5)
    found = summarize(whole, documents)
    num_bytes, text_nll = sum(len(text.encode()) for text in TEXTS), sum(nll[:-1].sum() for nll in naive)
    num_tokens = sum(len(nll) - 1 for nll in naive)
    assert (found.documents, found.tokens, found.num_bytes) == (5, num_tokens, num_bytes)
    assert found.bits_per_byte.value == pytest.approx(text_nll / math.log(2) / num_bytes, rel=1e-5)
    assert found.loss.value == pytest.approx(text_nll / num_tokens, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(text_nll / num_tokens), rel=1e-4)


def test_losses_by_position_are_sums_over_stretches(subject, losses):
    _, whole = losses
    naive = [naive_nll(subject, text)[:-1] for text in TEXTS]
    ends = [*whole.starts[1:], 10**6]
    for start, end, (nll, tokens, num_bytes) in zip(whole.starts, ends, whole.positions, strict=True):
        assert nll == pytest.approx(sum(one[start:end].sum() for one in naive), rel=1e-5)
        assert tokens == sum(len(one[start:end]) for one in naive)
        ids = [token for text in TEXTS for token in subject.tokenizer.encode(text)[start:end]]
        assert num_bytes == subject.tokenizer.token_lengths[ids].sum()


def test_a_short_context_changes_only_what_comes_after_it(losses):
    short, whole = losses
    for one in (short, whole):
        np.testing.assert_array_equal(one.num_tokens, whole.num_tokens)
    fits = short.num_tokens <= 8
    np.testing.assert_allclose(short.text_nll[fits], whole.text_nll[fits], rtol=1e-6)
    assert (np.abs(short.text_nll - whole.text_nll)[~fits] > 1e-4).all() and 1 < fits.sum() < 5


def test_groups_have_every_document_once(documents, losses):
    _, whole = losses
    for groups in (by_length(whole.num_tokens + 1), by_language(documents)):
        rows = np.concatenate([group.rows for group in groups])
        assert sorted(rows) == list(range(5))
        assert sum(summarize(whole, documents, group.rows).num_bytes for group in groups) == documents.num_bytes.sum()
    assert [group.name for group in by_language(documents)] == ["js", "python", "(none)"]
    assert [group.name for group in by_repository(documents)] == ["a", "b", "c"]
    assert documents.clusters.tolist() == [0, 1, 2, 0, 3]


def test_the_best_and_the_worst_repositories_are_told_apart(losses):
    made = [Document("y" * 1000, name, "", "") for name in "abcde"] + [Document("y", "f", "", "")]
    documents = Documents(documents=made, source="")
    of_each = replace(losses[0], text_nll=np.array([3.0, 1, 5, 4, 2, 99]), num_tokens=np.ones(6))
    ranked = rankable(by_repository(documents), documents)
    assert [group.name for group in ranked] == list("abcde")
    best, worst = best_and_worst(ranked, of_each, documents, 2)
    assert [group.name for group in best] == ["b", "e"] and [group.name for group in worst] == ["c", "d"]
    best, worst = best_and_worst(ranked, of_each, documents, 9)
    assert [group.name for group in best] == ["b", "e", "a"] and [group.name for group in worst] == ["c", "d"]


@pytest.fixture(scope="module")
def comparison(subject, other, documents, losses):
    found = {"one": losses, "two": measure(other, documents, find_boundaries(other), contexts=(8, 32), stride=4)}
    return Comparison(documents=documents, subjects={"one": subject, "two": other}, losses=found)


def test_models_with_other_tokenizers_are_compared_over_the_same_bytes(comparison, documents):
    naive = [sum(naive_nll(one, text)[:-1].sum() for text in TEXTS) for one in comparison.subjects.values()]
    (_, _, short), (name, context, long) = differences(comparison)
    assert (name, context) == ("two", 32)
    assert long.value == pytest.approx((naive[1] - naive[0]) / math.log(2) / documents.num_bytes.sum(), rel=1e-4)
    content = json.loads(json.dumps(to_json(comparison)))
    assert content["differences_from_first"][0]["bits_per_byte"]["value"] == short.value
    assert [one["context"] for one in content["models"][1]["contexts"]] == [8, 32]
    tables = make_tables(comparison)
    assert len(tables) == 5 and all(len(row) == len(table.columns) for table in tables for row in table.rows)
    assert f"{long.value:+.4f}" in [cell for row in tables[1].rows for cell in row]


def test_repositories_of_little_text_are_not_ranked_and_the_table_says_so(subject, losses):
    sizes = {"a": 1000, "b": 999, "c": 2000, "d": 1}
    made = [Document("y" * size, name, "", "") for name, size in sizes.items()]
    documents = Documents(documents=made, source="made up")
    four = replace(losses[0], text_nll=np.arange(4.0), end_nll=np.ones(4), num_tokens=np.array([1, 2, 3, 9]))
    comparison = Comparison(documents=documents, subjects={"one": subject}, losses={"one": [four]})
    tables = make_tables(comparison)
    assert "repositories are ranked from 1,000 bytes of text on: 2 of 4" in tables[0].caption
    assert [[row[0] for row in table.rows] for table in tables[-2:]] == [["c"], ["a"]]
    # Only one is left to rank, so there are no headings over nothing.
    few = replace(comparison, documents=Documents(documents=[*made[:2], made[3], made[3]], source=""))
    assert "1,000 bytes of text on: 1 of 3" in make_tables(few)[0].caption
    assert all(table.rows and "Repositories" not in table.caption for table in make_tables(few))


def test_length_of_a_document_is_that_of_its_text(comparison, losses):
    names = {row: group.name for group in comparison.lengths for row in group.rows}
    for row, count in enumerate(losses[1].num_tokens):
        low, _, high = names[row].partition(" to ")
        assert int(low) <= count <= int(high or low)


def test_a_stride_beyond_the_model_is_refused_before_documents_are_read(subject, monkeypatch, capsys):
    monkeypatch.setattr("evaluation.commands.perplexity.open_models", lambda arguments: {"one": subject})
    assert main(["perplexity", "run", "--on", "nowhere", "--stride", "500"]) == 2
    assert "--stride must be from 1 to the context of 64 tokens, got 500" in capsys.readouterr().err


@pytest.mark.slow
def test_a_page_has_a_plot_of_each_part(comparison, tmp_path):
    write_perplexity_page(tmp_path / "page.html", comparison)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 4 and page.count("<table") == 5


def test_what_begins_and_ends_documents_is_found_or_asked_for(subject, tmp_path):
    special = subject.tokenizer.special_tokens
    assert find_boundaries(subject) == Boundaries(special["<eod>"], special["<eod>"])
    assert find_boundaries(subject, end="<pad>") == Boundaries(special["<eod>"], special["<pad>"])
    with pytest.raises(EvaluationError, match=r"begin must be a special token .*<eod>.*--begin"):
        find_boundaries(subject, "<s>")
    plain = tokenizers.train([("ab ab ab", "a", "x")], vocab_size=260, priority="F", special_tokens=("<s>",))
    (tmp_path / "config.json").write_text('{"bos_token_id": 7, "eos_token_id": [8, 9]}')
    assert find_boundaries(subject._replace(tokenizer=plain, place=tmp_path)) == Boundaries(7, 8)
    with pytest.raises(EvaluationError, match="begin must be a special token"):
        find_boundaries(subject._replace(tokenizer=plain))


@pytest.mark.parametrize(("token", "key"), [(99999, "bos_token_id"), (-1, "bos_token_id"), (99999, "eos_token_id")])
def test_a_boundary_that_the_model_does_not_know_is_told_by_its_key(subject, tmp_path, token, key):
    plain = tokenizers.train([("ab ab ab", "a", "x")], vocab_size=260, priority="F", special_tokens=("<s>",))
    folder = subject._replace(tokenizer=plain, place=tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({key: token}))
    with pytest.raises(EvaluationError, match=rf"{key} of .*config.json must be .* to 289, got {token}; .*--begin"):
        find_begin(folder)
    assert find_begin(folder, "<s>") == plain.special_tokens["<s>"]


def test_what_has_no_end_needs_none(subject, tmp_path):
    plain = tokenizers.train([("ab ab ab", "a", "x")], vocab_size=260, priority="F", special_tokens=("<s>",))
    (tmp_path / "config.json").write_text('{"bos_token_id": 7, "eos_token_id": true}')
    folder = subject._replace(tokenizer=plain, place=tmp_path)
    assert find_begin(folder) == 7
    with pytest.raises(EvaluationError, match="end must be a special token"):
        find_boundaries(folder)


def test_a_choice_of_documents_does_not_depend_on_their_order():
    made = [Document(f"text {number}", "", "", "") for number in range(40)] + [Document("", "", "", "empty")]
    first, again = (take_documents(order, "", 10, seed=3).documents for order in (made, made[::-1]))
    assert len(first) == 10 and set(first) == set(again) and first == sorted(first, key=made.index)
    assert set(take_documents(made, "", 10, seed=4).documents) != set(first)
    assert take_documents(made, "").documents == made[:-1]
    with pytest.raises(EvaluationError, match="documents must be one or more"):
        take_documents([], "read from x")
