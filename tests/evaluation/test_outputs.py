"""Where commands write: never over what was made or is read, and refused before any work."""

from pathlib import Path

import pytest

from evaluation.__main__ import COMMANDS, main, make_parser
from evaluation.commands.models import check_outputs

WRITING = {
    ("perplexity", "--json"): "perplexity nowhere",
    ("perplexity", "--page"): "perplexity nowhere",
    ("choices", "--output"): "choices nowhere --on code/items.jsonl",
    ("choices", "--json"): "choices nowhere --on code/items.jsonl",
    ("longcontext", "--json"): "longcontext nowhere",
    ("longcontext", "--page"): "longcontext nowhere",
    ("undertrained", "--json"): "undertrained nowhere",
    ("undertrained", "--page"): "undertrained nowhere",
    ("undertrained", "--removal"): "undertrained nowhere",
    ("report", "--output"): "report nowhere",
}
"""Commands of a model that is not there, by the option that names what they write: whatever they read, they refuse."""
NAMES = [" ".join(name) for name in WRITING]


@pytest.fixture
def places(owned):
    Path("code").mkdir()
    Path("code/items.jsonl").write_text('{"context": "a", "choices": ["b", "c"], "answer": 0}\n')
    return owned


def refusal(capsys, words):
    """Run a command that must fail; return its one line, after a look whether all files are as they were."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(words) == 2
    output, line = capsys.readouterr()
    assert output == "" and line.startswith("error: ") and line.count("\n") == 1, line
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return line


def test_every_option_that_names_an_output_is_tried_here():
    # The one of lm-eval-harness writes by its own rules.
    commands = make_parser()._commands.choices.items()
    found = {(name, option) for name, command in commands for option in ("--json", "--page", "--output", "--removal")
             if option in command._option_string_actions}  # fmt: skip
    assert found == WRITING.keys() and len(commands) == len(COMMANDS)


@pytest.mark.parametrize(("name", "command"), WRITING.items(), ids=NAMES)
def test_nothing_takes_the_place_of_what_a_run_a_store_or_a_model_is_made_of(places, capsys, name, command):
    for output, kind in places.items():
        line = refusal(capsys, [*command.split(), name[1], output])
        assert f"{name[1]} must not be part of {kind}, got {output} of " in line


@pytest.mark.parametrize(("name", "command"), WRITING.items(), ids=NAMES)
def test_a_page_beside_the_files_of_a_run_is_no_reason_to_refuse(places, capsys, name, command):
    Path("run/old.html").write_text("a page")
    for output in ("run/old.html", "run/new.html", "hub/page.html"):
        assert "nowhere" in refusal(capsys, [*command.split(), name[1], output])


@pytest.mark.parametrize("command", ["perplexity", "longcontext"])
@pytest.mark.parametrize("option", ["--json", "--page"])
def test_nothing_is_written_among_the_documents(places, capsys, command, option):
    for on in ("code", "c*", "code/../code"):
        words = [command, "nowhere", "--on", on, option, "code/page.html"]
        assert f"{option} must not lie in a folder that is read, got code/page.html; choose" in refusal(capsys, words)


def test_what_was_written_before_is_written_again(places):
    for _ in range(2):
        outputs = {"--json": "run/found.json", "--page": "page.html"}
        check_outputs({**outputs}, ["run", "code", "store", "hub"])
        for output in outputs.values():
            Path(output).write_text("found")
