import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from dataservice.__main__ import main
from tokenizer import Tokenizer


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Arguments of `prepare` for a small corpus."""
    Tokenizer(np.array([[101, 32]]), ("<eot>", "<eod>")).save(tmp_path / "tokenizer")
    documents = [{"text": f"document {row} " * 50, "repo": f"project {row}", "path": f"{row}.txt"} for row in range(20)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    store, tokenizer = str(tmp_path / "store"), str(tmp_path / "tokenizer")
    return ["prepare", str(tmp_path / "corpus.jsonl"), "--tokenizer", tokenizer, "--output", store, "--workers", "1"]


def test_prepare_then_stats_show_and_verify(arguments, tmp_path, capsys):
    store = str(tmp_path / "store")
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "1 shards (1 new), 20 documents" in printed.out and "reads " in printed.err
    assert main(["stats", store, "--max-length", "256"]) == 0
    printed = capsys.readouterr().out
    assert "20 documents" in printed and "concatenated-masked" in printed
    assert main(["curriculum", store, "--max-length", "256", "--sequences", "grow-length"]) == 0
    assert capsys.readouterr().out.startswith("steps ")
    assert main(["show", store, "--step", "0", "--max-length", "256", "--tokens-per-step", "256"]) == 0
    assert "project" in capsys.readouterr().out
    assert main(["verify", store]) == 0
    assert "complete" in capsys.readouterr().out


@pytest.mark.slow
def test_the_page_of_stats_holds_the_printed_numbers_and_is_checked_before_any_work(arguments, tmp_path, capsys):
    store, page = str(tmp_path / "store"), tmp_path / "page.html"
    assert main(arguments) == 0
    assert main(["stats", store, "--max-length", "256", "--page", str(page)]) == 0
    printed = capsys.readouterr()
    assert f"wrote {page}" in printed.err
    text = page.read_text()
    ElementTree.fromstring(text)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", text)
    numbers = {cell for cell in cells if cell}
    means = re.search(r"mean sequence ([\d.,]+) tokens, mean context ([\d.,]+)", printed.out)
    assert means is not None and f"{means[1]} tokens on average, and a token has {means[2]} before it" in text
    table = [line.split() for line in printed.out.splitlines() if line.split()[1:2] and line.split()[0] in numbers]
    assert len(table) == 4 + 5 and all(set(line[1:3]) - {"packed"} <= numbers for line in table)
    assert text.count("<svg") == 5 and "http://" not in text.replace("http://www.w3.org", "")
    assert main(["stats", "nowhere", "--page", str(tmp_path / "none" / "page.html")]) == 2
    assert "--page must be" in capsys.readouterr().err


def test_verify_names_the_damaged_file_with_status_1(arguments, tmp_path, capsys):
    assert main(arguments) == 0
    (damaged,) = (tmp_path / "store/shards").glob("*/tokens.npy")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "store")]) == 1
    assert capsys.readouterr().out.startswith(f"{damaged} must hold")


@pytest.mark.parametrize(
    ("extra", "line"),
    [
        (["--held-out-fraction", "2"], "--held-out-fraction must be at least 0 and below 1, got 2.0"),
        (["--on-error", "ignore"], "--on-error must be one of raise, skip, got 'ignore'"),
        (["--workers", "two"], "--workers must be a whole number, got 'two'"),
        (["--workers", "-1"], "--workers must be at least 0, got -1"),
        (["--worker", "2"], "got --worker; did you mean --workers?"),
        (["--text-column", "body"], "body"),
        (["--tokenizer", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, capsys, extra, line):
    try:
        status = main([*arguments, *extra])
    except SystemExit as stop:
        status = stop.code
    error = capsys.readouterr().err.splitlines()
    assert status == 2 and line in error[-1] and error[-1].startswith("error: ")
    assert not any("Traceback" in text for text in error)


def test_steps_lengths_and_folders_that_are_not_there_are_refused(arguments, tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: store must be a folder with a manifest.json, got ")
    assert main(arguments) == 0
    capsys.readouterr()
    store = str(tmp_path / "store")
    assert main(["show", store, "--step", "1000"]) == 2
    assert "--step must be below" in capsys.readouterr().err
    assert main(["stats", store, "--min-length", "100"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --min-length must be a power of two") and "is --min-length 128" in error
    with pytest.raises(SystemExit, match="2"):
        main(["show", store, "--step", "-1"])
    assert capsys.readouterr().err.startswith("error: --step must be at least 0, got -1")


def test_a_store_is_never_made_in_a_folder_of_something_else(arguments, owned, tmp_path, capsys):
    Path("mine/shards/first").mkdir(parents=True)
    Path("mine/shards/first/tokens.npy").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused = "store must be a new or empty folder, or a store to carry on with, got {} with "
    for output, line in (
        ("mine", refused),
        ("run", refused),
        ("hub", refused),
        ("tokenizer", refused),
        ("begun", refused),
        ("run/tokenizer", "--output must not be part of a run, got {} of "),
        ("run/checkpoints/new", "--output must not be part of a run, got {} of "),
        ("store/held_out", "--output must not be part of a store, got {} of "),
        ("tokenizer/new", "--output must not be part of a tokenizer, got {} of "),
    ):
        assert main([*arguments, "--output", output]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: " + line.format(output)) and error.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_store_that_was_only_begun_is_carried_on_with_whatever_lies_in_it_later(arguments, tmp_path, capsys):
    store = tmp_path / "store"
    (store / "incoming" / "left").mkdir(parents=True)
    for name in ("lock", "demand", "shards.parquet.partial"):
        (store / name).touch()
    assert main(arguments) == 0
    (store / "stats.html").write_text("a page")
    assert main(arguments) == 0 and "(0 new)" in capsys.readouterr().out
    assert (store / "stats.html").read_text() == "a page"


def test_a_page_takes_the_place_of_no_file_that_was_made(owned, capsys):
    for output, kind in owned.items():
        assert main(["stats", "nowhere", "--page", output]) == 2
        assert capsys.readouterr().err.startswith(f"error: --page must not be part of {kind}, got {output} of ")
    Path("store/page.html").write_text("a page")
    assert main(["stats", "nowhere", "--page", "store/page.html"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_help_needs_no_heavy_library():
    code = (
        "import sys\nfrom dataservice.__main__ import main\n"
        "try: main(['prepare', '--help'])\nexcept SystemExit: pass\n"
        "heavy = {'jax', 'grain', 'pyarrow', 'rich', 'regex', 'numpy'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "--held-out-fraction" in text and "kept for evaluation" in text
