"""``evaluate``: tokenizers measured on documents, side by side."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizer.commands.documents import DocumentReader, add_documents
from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, add_option

if TYPE_CHECKING:
    from tokenizer.measures.evaluation import Evaluation
    from tokenizer.measures.page import Table
    from tokenizer.vocabulary import Tokenizer

__all__ = ["add_commands"]


def add_commands(parser: OptionParser) -> None:
    """Add ``evaluate``."""
    usage = "TOKENIZER... --on PATH..."
    evaluate = parser.add_command("evaluate", _evaluate, usage, "Measure tokenizers on documents, and compare them.")
    kinds = "Folder of a tokenizer, tokenizer.json of byte-level BPE or its folder, or a file of tiktoken ranks."
    evaluate.add_argument("tokenizers", nargs="+", metavar="TOKENIZER", help=kinds)
    # Plain arguments: as a setting, `json` would be seen in "tokenizer.json" of a message.
    evaluate.add_argument("--json", metavar="FILE", help="Write the measures as JSON, too.")
    evaluate.add_argument("--page", metavar="FILE.html", help="Write a page with plots, too.")
    add_option(evaluate, "--pattern", str, "Of tiktoken ranks: a name or a regular expression.", default="gpt4")
    dropped = "Take a tokenizer that normalises text without that: ids of text in another form then differ."
    add_option(evaluate, "--drop-normalizer", bool, dropped, default=False)
    add_documents(evaluate, "Documents to measure on.", held_out=True)


def _evaluate(options: argparse.Namespace) -> int:
    if not options.on:
        raise TokenizerError("--on must name documents to measure on, got none")
    reader = DocumentReader(options, options.on)
    _check_outputs(options)
    from tokenizer.measures.evaluation import evaluate
    from tokenizer.measures.table import make_tables
    from tokenizer.progress import show_progress
    from tokenizer.splitting.patterns import resolve_pattern

    resolve_pattern(options.pattern)
    tokenizers = _open(options.tokenizers, options.pattern, options.drop_normalizer)
    with show_progress() as progress:
        evaluation = evaluate(tokenizers, reader.read(progress, "measure"))
    _write(options, evaluation, tokenizers)
    _show(make_tables(evaluation))
    reader.report_skipped()
    for output in (options.json, options.page):
        if output is not None:
            print(f"wrote {output}", file=sys.stderr)
    return 0


def _check_outputs(options: argparse.Namespace) -> None:
    from tokenizer.output import check_output_file, resolve

    given = {"--json": options.json, "--page": options.page}
    outputs = {name: Path(output) for name, output in given.items() if output is not None}
    for name, output in outputs.items():
        check_output_file(output, [*options.tokenizers, *options.on], name=name)
    if len({resolve(output) for output in outputs.values()}) < len(outputs):
        raise TokenizerError(f"--json and --page must be different files, got {options.json} for both")


def _write(options: argparse.Namespace, evaluation: "Evaluation", tokenizers: dict[str, "Tokenizer"]) -> None:
    """Write the files that were asked for; before anything is printed, as whoever reads that may leave."""
    if options.json is not None:
        import json

        from tokenizer.output import write_file

        content = json.dumps(evaluation.to_json(), ensure_ascii=False, indent=1) + "\n"
        write_file(Path(options.json), content.encode())
    if options.page is not None:
        from tokenizer.measures.evaluation_page import write_evaluation_page

        write_evaluation_page(Path(options.page), evaluation, tokenizers)


def _open(paths: Sequence[str], pattern: str, drop_normalizer: bool) -> dict[str, "Tokenizer"]:
    """Open tokenizers by name: the last part of each path, or, where two have the same, the paths as given."""
    from tokenizer.measures.subject import open_subject

    names = [Path(path).name or path for path in paths]
    if len(set(names)) < len(names):
        names = list(paths)
    if len(set(names)) < len(names):
        raise TokenizerError(f"tokenizers must be different, got {' '.join(names)}")
    return {
        name: open_subject(Path(path), pattern=pattern, drop_normalizer=drop_normalizer)
        for name, path in zip(names, paths, strict=True)
    }


def _show(tables: Sequence["Table"]) -> None:
    """Print tables: in columns on a terminal, as Markdown elsewhere."""
    from tokenizer.measures.table import to_markdown

    if not sys.stdout.isatty():
        print("\n".join(map(to_markdown, tables)), end="")
        return
    from rich.console import Console
    from rich.table import Table as Columns
    from rich.text import Text

    console = Console()
    for table in tables:
        columns = Columns(title=table.caption, title_justify="left")
        for number, name in enumerate(table.columns):
            columns.add_column(Text(name), justify="right" if number else "left")
        for row in table.rows:
            columns.add_row(*(Text(str(cell)) for cell in row))
        console.print(columns)
