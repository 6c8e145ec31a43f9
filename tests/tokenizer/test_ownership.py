"""What belongs to what was made, and what may be written beside it."""

import os
from pathlib import Path

import pytest

from tokenizer import TokenizerError
from tokenizer.output import check_output_file
from tokenizer.ownership import find_owner, kind_of


def test_every_file_of_what_was_made_has_its_owner(owned):
    for name, kind in owned.items():
        owner = find_owner(Path(name))
        assert owner is not None and owner.kind == kind, name
        with pytest.raises(TokenizerError, match=f"^--page must not be part of {kind}, got {name} of .*; choose anot"):
            check_output_file(Path(name), name="--page")


def test_a_name_of_its_own_is_refused_before_there_is_a_file(owned):
    for name in ("run/loss.png", "run/tokenizer/x", "run/checkpoints/x", "store/shards/x", "hub/tokenizer_config.json"):
        with pytest.raises(TokenizerError, match="must not be part of"):
            check_output_file(Path(name))


def test_what_others_put_beside_it_is_written_again_and_again(owned):
    for name in ("run/report.html", "run/perplexity.json", "store/stats.html", "hub/report.html", "coder/report.html"):
        for _ in range(2):
            check_output_file(Path(name), ["run", "store", "hub", "coder"])
            Path(name).write_text("a page")
            assert find_owner(Path(name)) is None


def test_folders_that_are_called_alike_have_no_owner(tmp_path):
    for name in ("config.yaml", "config.json", "manifest.json", "lock", "summary.json", "tokenizer.json", "owner"):
        (tmp_path / name).touch()
        assert find_owner(tmp_path / name) is None
    (tmp_path / "shards.json").mkdir()
    assert kind_of(tmp_path) is None


def test_links_are_looked_through_from_both_sides(owned):
    Path("to-run").symlink_to("run")
    Path("to-file").symlink_to("run/metrics.jsonl")
    Path("run/summary.json").unlink()
    Path("run/summary.json").symlink_to("../elsewhere.json")
    for name in ("to-run/config.yaml", "to-file", "run/summary.json", "hub/../run/config.yaml"):
        with pytest.raises(TokenizerError, match="must not be part of a run"):
            check_output_file(Path(name))


@pytest.fixture
def documents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("code/a.py", "code/deep/b.py", "one.jsonl"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("{}")


READ = {
    "a file": ("one.jsonl", "one.jsonl", "be what is read"),
    "a file of a folder": ("code", "code/a.py", "lie in a folder that is read"),
    "a new one in a folder": ("code/", "code/deep/page.html", "lie in a folder that is read"),
    "in a folder of a glob": ("co*", "code/page.html", "lie in a folder that is read"),
    "a file of a glob": ("code/*.py", "code/a.py", "be what is read"),
    "a new one of a glob": ("code/*.html", "code/page.html", "be named like what is read"),
    "deep in a glob": ("code/**/*.html", "code/deep/page.html", "be named like what is read"),
    "behind a URL": ("file://{}/code", "code/page.html", "lie in a folder that is read"),
}


@pytest.mark.parametrize(("source", "output", "message"), READ.values(), ids=READ)
def test_a_document_is_never_written_over_nor_added(documents, source, output, message):
    sources = ["packages:numpy", "-", "s3://bucket/*", "nothing.txt", source.format(os.getcwd())]  # noqa: PTH109
    with pytest.raises(TokenizerError, match=f"^--json must not {message}, got {output}; choose another place"):
        check_output_file(Path(output), sources, name="--json")
    check_output_file(Path(output), sources[:-1])


def test_what_is_read_elsewhere_is_in_nobodys_way(documents):
    for source in ("code", "code/*.py", "code/**/*.py", "*.jsonl", "code/a.py", "one.jsonl"):
        for output in ("page.html", "code.html", "one.json"):
            check_output_file(Path(output), [source])
    check_output_file(Path(os.devnull), ["/dev"])
    check_output_file(Path("code/page.html"), ["code/*.py", "*/*/*.html"])
