import os
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import pytest

from tokenizer.config import TokenizerConfig
from tokenizer.corpus.config import SOURCE_EXTENSIONS, CorpusConfig
from tokenizer.options import (
    OptionParser,
    add_option,
    add_options,
    field_docs,
    run_command,
    split_default,
    take_options,
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of nothing."""

    min_length: int = 64
    """Shortest row; 100% of it."""
    limit: int | None = None
    """Longest row; null: no limit."""
    odds: str | tuple[float, ...] = "uniform"
    """Odds of the rows."""
    mixture: str | dict[int, int] = "natural"
    """Tokens of each length."""
    tails: Literal["pack", "drop"] = "pack"
    """What happens to tails."""
    names: tuple[str, ...] = ()
    """Names of
    rows; empty: all."""
    share: float = 0.5
    """Part of the rows."""

    def __post_init__(self) -> None:
        if self.min_length < 1:
            raise ValueError(
                f"data.min_length must be at least 1, got {self.min_length}; set data.min_length=1, see share"
            )


@pytest.fixture
def parser():
    def run(options) -> int:
        print(take_options(options, Settings))
        return options.count

    parser = OptionParser(prog="program")
    command = parser.add_command("work", run, "", "Work.")
    add_options(command, Settings, title="rows")
    add_option(command, "--count", int, "Of things.", default=0, least=0)
    return parser


def run(parser, *arguments):
    try:
        return run_command(parser, arguments, errors=(ValueError,), interrupted="interrupted")
    except SystemExit as stop:
        return stop.code


def test_every_field_is_an_option_converted_by_its_type(parser, capsys):
    given = ["--min-length", "1e3", "--limit", "7", "--odds", "1,2", "--mixture", "64:1,128:2", "--tails=drop"]
    assert run(parser, "work", *given, "--names", "a,b", "--share", "1") == 0
    expected = Settings(
        min_length=1000, limit=7, odds=(1.0, 2.0), mixture={64: 1, 128: 2}, tails="drop", names=("a", "b"), share=1.0
    )
    assert capsys.readouterr().out == f"{expected}\n"


def test_without_options_the_settings_are_the_defaults_and_the_exit_code_is_the_commands(parser, capsys):
    assert run(parser, "work", "--count", "3") == 3
    assert capsys.readouterr().out == f"{Settings()}\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "COMMAND must be given, got nothing; see program --help"),
        (["--count", "1", "work"], "option must be one that there is, got --count; see program --help"),
        (["work", "--min-lenght", "1"], "got --min-lenght; did you mean --min-length?"),
        (["work", "--min", "1"], "option must be one that there is, got --min;"),
        (["work", "--min-length"], "--min-length must be followed by a value, got nothing; see program work --help"),
        (["work", "--limit", "x"], "--limit must be a whole number or null, got 'x'; see program work --help"),
        (["work", "--tails", "x"], "--tails must be one of pack, drop, got 'x'; see program work --help"),
        (["work", "--names", "a", "b"], "argument must be an option or its value, got 'b'; a list is written a,b"),
        (["work", "--count", "-1"], "--count must be at least 0, got -1; see program work --help"),
        (["work", "--min-length", "0"], "--min-length must be at least 1, got 0; set --min-length 1, see share"),
    ],
)
def test_bad_input_is_one_line_that_names_the_option_and_code_2(parser, capsys, arguments, line):
    assert run(parser, *arguments) == 2
    output, errors = capsys.readouterr()
    assert output == "" and errors.startswith("error: ") and errors.endswith("\n") and errors.count("\n") == 1
    assert line in errors


def test_an_empty_default_is_told_as_none():
    """Of any command: a line that ends with "Default: ." would say nothing."""
    assert [split_default("Text between.", default)[1] for default in (None, (), "")] == ["none"] * 3
    assert split_default("Text between; empty: a space.", "") == ("Text between.", "a space")


def test_help_tells_doc_syntax_and_default_of_every_option(parser, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(parser, "work", "--help") == 0
    lines = {words[0]: " ".join(words) for line in capsys.readouterr().out.splitlines() if (words := line.split())}
    assert lines["--min-length"] == "--min-length N Shortest row; 100% of it. Default: 64."
    assert lines["--limit"] == "--limit N Longest row. Default: no limit."
    assert lines["--odds"] == "--odds TEXT|X,... Odds of the rows. Default: uniform."
    assert lines["--mixture"].startswith("--mixture TEXT|N:N,...")
    assert lines["--tails"] == "--tails pack|drop What happens to tails. Default: pack."
    assert lines["--names"].endswith("Names of rows. Items between commas; none: an empty list. Default: all.")


@pytest.mark.parametrize("config", [CorpusConfig, TokenizerConfig])
def test_every_setting_has_a_doc_and_no_default_is_a_wall_of_text(config):
    parser = OptionParser(prog="program")
    add_options(parser, config, title="settings")
    assert set(field_docs(config)) == {field.name for field in fields(config)}
    assert take_options(parser.parse_args([]), config) == config()
    text = " ".join(parser.format_help().split())
    assert ",".join(SOURCE_EXTENSIONS[:10]) not in text and "null" not in text


def test_a_reader_of_the_output_may_leave():
    code = (
        "from tokenizer.options import OptionParser, run_command\nparser = OptionParser(prog='p')\n"
        "def run(options):\n    for n in range(10**6): print(n)\n    return 0\n"
        "parser.add_command('work', run, '', '')\n"
        "raise SystemExit(run_command(parser, ['work'], errors=(), interrupted=''))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
