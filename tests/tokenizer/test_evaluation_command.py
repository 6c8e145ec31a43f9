import json
import sys
from pathlib import Path

import pytest

from tokenizer import CorpusConfig, Document, Tokenizer, train
from tokenizer.commands import main
from tokenizer.corpus import is_held_out
from tokenizer.interchange.tiktoken_ranks import export_tiktoken
from tokenizer.measures import evaluate


@pytest.fixture
def corpus(documents, small_tokenizer, tmp_path, monkeypatch):
    """Folders a and b of tokenizers, and text.jsonl."""
    monkeypatch.chdir(tmp_path)
    small_tokenizer.save("a")
    train(documents, vocab_size=300, priority="F*logR").save("b")
    rows = [{"text": one.text, "repo": one.repository, "language": one.language} for one in documents]
    Path("text.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return documents


def run(capsys, *arguments):
    try:
        code = main(["evaluate", *arguments])
    except SystemExit as exit:
        code = exit.code
    return code, *capsys.readouterr()


def test_tables_and_json_are_those_of_the_api(corpus, capsys):
    code, output, errors = run(capsys, "a", "b", "--on", "text.jsonl", "--json", "out.json")
    assert code == 0 and errors.splitlines()[-1] == "wrote out.json"
    expected = evaluate({name: Tokenizer.load(name) for name in "ab"}, corpus).to_json()
    found = json.loads(Path("out.json").read_text())
    for content in (expected, found):
        for measures in content["tokenizers"]:
            del measures["depends_on_machine"]
    assert found == expected
    for name, measures in zip("ab", found["tokenizers"], strict=True):
        (row,) = (line for line in output.splitlines() if line.startswith(f"| {name} ") and "%" in line)
        assert f"| {measures['compression_rate']:.4f} |" in " ".join(row.split())
    assert "| language0 | " in " ".join(output.split()) and "Tokens of a row's vocabulary" in output


def test_every_kind_of_file_is_taken_and_gives_the_same(corpus, capsys):
    Path("bare").mkdir()
    Path("bare/tokenizer.json").write_bytes(Path("a/tokenizer.json").read_bytes())
    Path("x.json").write_bytes(Path("a/tokenizer.json").read_bytes())
    Path("x.tiktoken").write_bytes(export_tiktoken(Tokenizer.load("a")))
    code, _, _ = run(capsys, "a", "bare", "x.json", "x.tiktoken", "--on", "text.jsonl", "--json", "out.json")
    content = json.loads(Path("out.json").read_text())
    assert code == 0 and content["differences"] == [[0] * 4] * 4
    rows = [(one["tokens"], one["coverage"], one["name_parts"], one["languages"]) for one in content["tokenizers"]]
    assert rows == rows[:1] * 4
    steps = [one["training_steps"] for one in content["tokenizers"]]
    assert steps[0] is not None and steps[1:] == [None] * 3


def test_tokenizers_of_one_name_are_told_apart_by_their_paths(corpus, capsys):
    for folder in "xy":
        Path(folder).mkdir()
        Tokenizer.load("a").save(Path(folder, "tokenizer"))
    code, output, _ = run(capsys, "x/tokenizer", "y/tokenizer", "--on", "text.jsonl")
    assert code == 0 and "| x/tokenizer |" in output and "| y/tokenizer |" in output


def test_only_the_held_out_share_is_measured_when_there_is_one(corpus, capsys):
    config = CorpusConfig(held_out_fraction=0.5, held_out_seed=3)
    kept = [one for one in corpus if is_held_out(one, config)]
    assert 0 < len(kept) < len(corpus)
    share = ["--held-out-fraction", "0.5", "--held-out-seed", "3"]
    code, _, _ = run(capsys, "a", "--on", "text.jsonl", "--json", "out.json", *share)
    content = json.loads(Path("out.json").read_text())
    assert code == 0 and content["documents"] == len(kept)
    assert content["bytes"] == sum(len(document.text.encode()) for document in kept)


def test_the_page_shows_all_tokenizers_and_the_history_of_those_that_know_theirs(corpus, capsys):
    Path("x.tiktoken").write_bytes(export_tiktoken(Tokenizer.load("a")))
    code, _, errors = run(capsys, "a", "x.tiktoken", "--on", "text.jsonl", "--page", "out.html")
    page = Path("out.html").read_text()
    assert code == 0 and errors.splitlines()[-1] == "wrote out.html"
    for text in ("Compression by language", "Length of tokens", "Parts of names", "Probability of tokens", "a: R of"):
        assert text in page
    assert "x.tiktoken" in page and "x.tiktoken: R of" not in page


def test_columns_are_shown_on_a_terminal(corpus, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, output, _ = run(capsys, "a", "--on", "text.jsonl")
    assert code == 0 and "|---" not in output and "━" in output and "compression" in output


def test_documents_that_cannot_be_read_are_left_out_when_asked(corpus, capsys):
    Path("bad.txt").write_bytes(b"\xff")
    code, _, errors = run(capsys, "a", "--on", "text.jsonl", "bad.txt", "--on-error", "skip")
    assert code == 0 and "left out 1 documents; the first: text must be UTF-8" in errors


BAD = {
    "no tokenizer": (["--on", "text.jsonl"], "TOKENIZER must be given, got nothing"),
    "no documents": (["a"], "--on must name documents to measure on, got none"),
    "missing tokenizer": (["nowhere", "--on", "text.jsonl"], "tokenizer must be a folder with tokenizer.json"),
    "a folder without one": (["empty", "--on", "text.jsonl"], "tokenizer must be a folder with tokenizer.json"),
    "no ranks": (["text.jsonl", "--on", "text.jsonl"], "line must be a token in base64 and its rank"),
    "no BPE": (["unigram.json", "--on", "text.jsonl"], "tokenizer.json must be byte-level BPE, got model Unigram"),
    "the same twice": (["a", "a", "--on", "text.jsonl"], "tokenizers must be different, got a a"),
    "missing documents": (
        ["a", "--on", "missing"],
        "--on must be files, folders, globs or packages:NAMES, got 'missing'",
    ),
    "empty documents": (["a", "--on", "empty.txt"], "documents must hold some text to measure, got none"),
    "a language that is not there": (["a", "--on", "text.jsonl", "--languages", "x"], "documents must hold some text"),
    "documents that are not text": (["a", "--on", "bad.txt"], "text must be UTF-8, got byte 0xff"),
    "no place": (
        ["a", "--on", "text.jsonl", "--json", "no/out.json"],
        "--json must be writable, got no such folder: no/out.json",
    ),
    "a folder in the way": (
        ["a", "--on", "text.jsonl", "--json", "empty"],
        "--json must be writable, got Is a directory",
    ),
    "a page where nothing can be made": (
        ["a", "--on", "text.jsonl", "--page", "/proc/x.html"],
        "--page must be writable",
    ),
    "two outputs in one place": (
        ["a", "--on", "text.jsonl", "--json", "x.html", "--page", "./x.html"],
        "--json and --page must be different files, got x.html for both",
    ),
    "an input as output": (["a", "--on", "text.jsonl", "--json", "text.jsonl"], "--json must not be what is read"),
    "a tokenizer as output": (
        ["a", "--on", "text.jsonl", "--page", "b/x.html"],
        "--page must not be part of a tokenizer",
    ),
    "a pattern that nothing needs": (["a", "--on", "text.jsonl", "--pattern", "("], "--pattern must be one of none"),
    "unknown pattern": (["x.tiktoken", "--on", "text.jsonl", "--pattern", "("], "pattern must be one of none"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_code_2_and_writes_nothing(corpus, capsys, arguments, message):
    Path("empty").mkdir()
    Path("empty.txt").write_text("")
    Path("bad.txt").write_bytes(b"\xff")
    Path("unigram.json").write_text(json.dumps({"model": {"type": "Unigram"}, "pre_tokenizer": {}}))
    Path("x.tiktoken").write_bytes(export_tiktoken(Tokenizer.load("a")))
    before = sorted(Path().rglob("*"))
    code, _, errors = run(capsys, *arguments)
    lines = [line for line in errors.splitlines() if not line.startswith("measure: ")]
    assert code == 2 and len(lines) == 1 and lines[0].startswith("error: ") and message in lines[0]
    assert sorted(Path().rglob("*")) == before


def test_a_corpus_larger_than_a_block_is_measured_as_a_whole(corpus, capsys):
    text = "x = getHTTPStatus(100)\n" * 100_000
    Path("large.txt").write_text(text)
    code, _, _ = run(capsys, "a", "--on", "large.txt", "text.jsonl", "--json", "out.json")
    content = json.loads(Path("out.json").read_text())
    expected = evaluate({"a": Tokenizer.load("a")}, [*corpus, Document(text, "", "txt", "")]).to_json()
    assert code == 0 and content["bytes"] == expected["bytes"]
    assert content["tokenizers"][0]["languages"] == expected["tokenizers"][0]["languages"]
