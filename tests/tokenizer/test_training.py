import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tokenizer import CorpusConfig, Tokenizer, TokenizerConfig, TokenizerError, train, train_corpus, training

CONFIG = TokenizerConfig(vocab_size=300, num_reserved=1)


@pytest.fixture
def corpus(documents, tmp_path):
    for document in documents:
        path = tmp_path / "corpus" / document.repository / f"{document.path}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document.text, newline="")
    return CorpusConfig(paths=(str(tmp_path / "corpus"),), shard_bytes=600)


def contents(folder: Path):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_documents_may_be_tuples_or_rows_of_a_data_set(documents):
    options = {"vocab_size": 300, "priority": "F*logR*L"}
    rows = [{"text": d.text, "repo": d.repository, "lang": d.language, "stars": 3} for d in documents]
    expected = train(documents, **options)
    assert train([tuple(d)[:3] for d in documents], **options).fingerprint == expected.fingerprint
    assert train(iter(rows), **options).fingerprint == expected.fingerprint


@pytest.mark.parametrize("document", ["text alone", ("text", "repository"), {"body": "text"}])
def test_other_documents_are_refused_by_number(document):
    with pytest.raises(TokenizerError, match="document 1"):
        train([("text", "", ""), document], vocab_size=300)


def test_the_options_that_made_it_are_in_the_provenance(documents):
    made = train(documents, vocab_size=300, special_tokens=["<a>"], num_reserved=0)
    assert made.provenance["options"]["special_tokens"] == ("<a>",)
    assert made.provenance["priority"] == "F*logR*L"
    assert made.provenance["repositories"] == 6 and made.provenance["languages"] == 4
    assert made.special_tokens == {"<a>": 299}


def test_running_out_of_pairs_ends_with_fewer_tokens_and_says_so(caplog):
    with caplog.at_level(logging.WARNING):
        made = train([("abab", "r", "")], vocab_size=1000, num_reserved=0)
    assert made.vocab_size == 258 + 8 and made.special_tokens["<eot>"] == 258
    assert "no pair is left to merge: the vocabulary has 266 tokens, 734 fewer than vocab_size 1000" in caplog.text


def test_a_corpus_gives_the_tokenizer_of_its_documents(corpus, documents, tmp_path):
    made = train_corpus(corpus, CONFIG, cache=tmp_path / "cache")
    texts = [(document.text, document.repository, "py") for document in documents]
    assert made.fingerprint == train(texts, vocab_size=300, num_reserved=1).fingerprint
    assert made.provenance["corpus"]["documents"] == 24


def test_the_second_time_opens_the_first_result(corpus, tmp_path, monkeypatch):
    made = train_corpus(corpus, CONFIG, cache=tmp_path / "cache")
    monkeypatch.setattr(training, "count_shards", None)  # nothing is counted any more
    assert train_corpus(corpus, CONFIG, cache=tmp_path / "cache").fingerprint == made.fingerprint


@pytest.mark.parametrize("settings", [{"held_out_fraction": 0.5}, {"languages": ("py",)}, {"max_document_bytes": 100}])
def test_other_settings_of_the_corpus_are_another_training(corpus, tmp_path, settings):
    train_corpus(corpus, CONFIG, cache=tmp_path / "cache")
    changed = CorpusConfig(paths=corpus.paths, shard_bytes=600, **settings)
    train_corpus(changed, CONFIG, cache=tmp_path / "cache")
    assert len(list((tmp_path / "cache" / "tokenizers").iterdir())) == 2


def test_a_changed_file_is_another_training(corpus, tmp_path):
    train_corpus(corpus, CONFIG, cache=tmp_path / "cache")
    (tmp_path / "corpus" / "repository0" / "file0.py").write_text("new text")
    train_corpus(corpus, CONFIG, cache=tmp_path / "cache")
    assert len(list((tmp_path / "cache" / "tokenizers").iterdir())) == 2


def test_held_out_documents_are_not_trained_on(corpus, tmp_path):
    held = CorpusConfig(paths=corpus.paths, held_out_fraction=0.5)
    made = train_corpus(held, CONFIG, cache=tmp_path / "cache")
    summary = made.provenance["corpus"]
    assert summary["documents"] + summary["held_out_documents"] == 24 and summary["held_out_documents"] > 0
    assert made.provenance["repositories"] < 6


def test_what_was_left_out_is_counted_and_said(corpus, tmp_path, caplog):
    (tmp_path / "corpus" / "bad.py").write_bytes(b"\xff")
    skipping = CorpusConfig(paths=corpus.paths, on_error="skip")
    with caplog.at_level(logging.WARNING):
        made = train_corpus(skipping, CONFIG, cache=tmp_path / "cache")
    assert made.provenance["corpus"]["skipped_documents"] == 1
    assert "left out 1 documents" in caplog.text and "bad.py" in caplog.text


def test_a_limit_on_words_is_kept_and_told(corpus, documents, tmp_path, caplog):
    limited = TokenizerConfig(vocab_size=300, num_reserved=1, max_words=20)
    made = train_corpus(corpus, limited, cache=tmp_path / "cache")
    left_out = made.provenance["left_out"]
    assert left_out["words"] > 0 and left_out["occurrences"] >= left_out["words"]
    assert f"max_words 20 left out {left_out['words']} words that occurred" in caplog.text
    assert "left_out" not in train(documents, vocab_size=300, max_words=10_000).provenance


def test_a_held_out_share_far_from_what_was_asked_is_said(corpus, tmp_path, caplog):
    for seed, fraction in ((0, 0.01), (1, 0.5)):
        config = CorpusConfig(paths=corpus.paths, held_out_fraction=fraction, held_out_seed=seed)
        train_corpus(config, CONFIG, cache=tmp_path / "cache")
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "held_out_fraction 0.01 held out 0 of the documents (0 of 24)"
    ]


def test_progress_goes_from_nothing_to_all(corpus, tmp_path):
    calls = []
    train_corpus(corpus, CONFIG, cache=tmp_path / "cache", progress=lambda *call: calls.append(call))
    for phase in ("count words", "merge pairs"):
        counts = [(done, total) for name, done, total, *_ in calls if name == phase]
        assert counts == sorted(counts) and counts[-1][0] == counts[-1][1] > 0


def test_nothing_to_train_on_is_an_error(corpus, tmp_path):
    with pytest.raises(TokenizerError, match="corpus must hold at least one document to train on"):
        train_corpus(CorpusConfig(paths=corpus.paths, languages=("cobol",)), CONFIG, cache=tmp_path / "cache")


SCRIPT = """
import sys
from pathlib import Path
from tokenizer import CorpusConfig, TokenizerConfig, train_corpus
corpus = CorpusConfig(paths=(sys.argv[1],), shard_bytes=600)
train_corpus(corpus, TokenizerConfig(vocab_size=300, num_reserved=1), cache=Path(sys.argv[2]),
             progress=lambda phase, done, total, note="": print(phase, flush=True))
"""


@pytest.mark.parametrize("num_reports", [1, 4, 9])
def test_killed_anywhere_and_run_again_gives_the_same_bytes(corpus, tmp_path, num_reports):
    train_corpus(corpus, CONFIG, cache=tmp_path / "whole")
    command = [sys.executable, "-c", SCRIPT, corpus.paths[0], str(tmp_path / "killed")]
    environment = {**os.environ, "PYTHONPATH": str(Path(training.__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for _ in range(num_reports):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    train_corpus(corpus, CONFIG, cache=tmp_path / "killed")
    (whole,), (killed,) = (list((tmp_path / name / "tokenizers").glob("[!.]*")) for name in ("whole", "killed"))
    assert contents(killed) == contents(whole)
    assert Tokenizer.load(killed).vocab_size == 300


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 200}, "vocab_size must be at least 267"),
        ({"priority": "F*R"}, "priority must be one of auto, F, .* got 'F.R'"),
        ({"ties": "best"}, "ties must be one of ids, hf, first, got 'best'"),
        ({"min_repositories": 0}, "min_repositories must be at least 1, got 0"),
        ({"max_words": 0}, "max_words must be null or at least 1, got 0"),
        ({"max_token_length": 1}, "max_token_length must be null or at least 2 bytes, got 1"),
        ({"num_reserved": -1}, "num_reserved must be at least 0, got -1"),
        ({"special_tokens": ("<a>", "<a>")}, "special_tokens must be different and not empty"),
        ({"special_tokens": ("",)}, "special_tokens must be different and not empty"),
        ({"special_tokens": ("<a>", "a")}, "special_tokens must differ from the tokens of bytes, got 'a'"),
        ({"special_tokens": ("\u0120",)}, "special_tokens must differ from the tokens of bytes"),
        ({"special_tokens": ("\ud800",)}, "special_tokens must be text, got .* with a lone surrogate"),
        ({"special_tokens": "<eod>"}, "special_tokens must be a tuple of strings, got '<eod>'"),
        ({"special_tokens": (1,)}, "special_tokens must be a tuple of strings"),
        ({"vocab_size": 10**20}, r"vocab_size must be at most 2097162 \(2096895 merges\), got 10{20}"),
        ({"vocab_size": "300"}, "vocab_size must be an int, got '300'"),
        ({"min_languages": 1.5}, "min_languages must be an int, got 1.5"),
        ({"max_words": True}, "max_words must be an int, got True"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(TokenizerError, match=message):
        TokenizerConfig(**settings)


@pytest.mark.parametrize("name", ["<eod>", "\u0120the", "the the"])
def test_no_token_is_learned_that_spells_a_special_one(tmp_path, name):
    text = f"{name} the the <eod> <eod>" * 20
    made = train([(text, "r", "x")], vocab_size=400, pattern="none", special_tokens=[name], num_reserved=0)
    assert made.vocab_size > 262 and not {name.encode(), b" the" if name == "\u0120the" else b""} & set(
        made.token_bytes[:-1]
    )
    made.save(tmp_path / "made")
    opened = Tokenizer.load(tmp_path / "made")
    assert opened.decode(opened.encode(text)) == text
    assert opened.encode(name, allowed_special=[name]) == [opened.special_tokens[name]]


@pytest.mark.parametrize("name", ["a", "\u0120", "\u00e9", " ", "\n\n"])
def test_a_special_token_that_cannot_be_told_from_a_learned_one_is_refused(name):
    with pytest.raises(TokenizerError, match="special_tokens must") as caught:
        train([("the the", "r", "x")], vocab_size=300, special_tokens=[name])
    assert "\n" not in str(caught.value)


def test_what_is_no_document_is_refused():
    for document in (("text", "r"), (1, "r", "x"), ("text", 2, "x"), (None, "r", "x"), "text"):
        with pytest.raises(TokenizerError, match=r"documents must be \(text, .* as document 1$"):
            train([("text", "r", "x"), document], vocab_size=300)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TokenizerError, match="documents must hold at least one to train on, got none"):
        train([], vocab_size=300)
    with pytest.raises(TokenizerError, match="processes must be at least 1, got 0"):
        train([("text", "r", "x")], vocab_size=300, processes=0)
    assert train([("text", None, None)], vocab_size=268).vocab_size == 268  # pyright: ignore[reportArgumentType]
