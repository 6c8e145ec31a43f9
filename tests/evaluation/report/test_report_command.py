"""`python -m evaluation report`: what it writes, and what it says of what it cannot."""

import shutil
from pathlib import Path

import pytest

from evaluation.__main__ import main
from evaluation.errors import EvaluationError
from evaluation.report.places import name_places, open_places

pytestmark = pytest.mark.usefixtures("quick_plots")


@pytest.fixture
def saved(tmp_path, tokenizer) -> Path:
    tokenizer.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_runs_and_tokenizers_are_told_apart_and_written_into_one_page(tmp_path, make_run, saved, capsys):
    run = make_run(tmp_path / "run", 3, evaluate_every=0, is_killed=True)
    output = tmp_path / "page.html"
    assert main(["report", str(run), str(saved), "--output", str(output)]) == 0
    said = capsys.readouterr().out
    assert f"wrote {output}: 1 run, 1 tokenizer, " in said and "run: There was no held-out evaluation." in said
    page = output.read_text(encoding="utf-8")
    assert "<title>run, saved</title>" in page and "Text, token by token" in page and "Curriculum" in page


def test_the_same_places_give_the_same_bytes(tmp_path, saved):
    outputs = [tmp_path / "a.html", tmp_path / "b.html"]
    for output in outputs:
        assert main(["report", str(saved), "--output", str(output)]) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_a_tokenizer_without_its_merges_file_is_shown_without_their_counts(tmp_path, saved, tokenizer):
    (saved / "merges.parquet").unlink()
    opened = open_places([saved]).tokenizers["saved"]
    assert opened.notes == ["merges.parquet is missing: F, R, L of its merges are not known."]
    assert opened.tokenizer.encode("def alpha") == tokenizer.encode("def alpha")


def test_a_tokenizer_json_of_anybody_is_a_tokenizer(tmp_path, saved):
    shutil.copy(saved / "tokenizer.json", tmp_path / "other.json")
    assert list(open_places([tmp_path / "other.json"]).tokenizers) == ["other.json"]


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_what_is_neither_is_refused_in_one_line_and_nothing_is_written(tmp_path, name, capsys):
    (tmp_path / "empty").mkdir()
    output = tmp_path / "page.html"
    assert main(["report", str(tmp_path / name), "--output", str(output)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: place must be the folder of a run (config.yaml, metrics.jsonl) or of a tokenizer")
    assert error.count("\n") == 1 and not output.exists()


def test_a_page_in_the_folder_of_a_tokenizer_or_nowhere_is_refused_before_anything_is_read(tmp_path, saved, capsys):
    for output in (saved / "page.html", tmp_path / "no" / "page.html"):
        assert main(["report", str(saved), "--output", str(output)]) == 2
        assert capsys.readouterr().err.startswith("error: --output must ")


def test_places_are_called_by_the_least_that_tells_them_apart(tmp_path):
    assert name_places([Path("a/run"), Path("b/run"), Path("c")])[:2] == ["a/run", "b/run"]
    assert name_places([Path("runs/x/tokenizer")]) == ["x/tokenizer"]
    with pytest.raises(EvaluationError, match="places must be different"):
        name_places([Path("a"), Path("b/../a")])
