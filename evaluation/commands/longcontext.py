"""``longcontext``: needles, keys, documents and passages asked for over contexts of any length."""

import argparse
import sys
from pathlib import Path

from evaluation.commands.documents import read_documents
from evaluation.commands.models import add_models, check_outputs, open_models, write_json
from evaluation.errors import EvaluationError
from evaluation.longcontext.settings import LongContextConfig
from tokenizer.commands.documents import add_documents
from tokenizer.options import OptionParser, add_option, add_options, take_options

__all__ = ["add", "run"]


def add(parser: OptionParser) -> None:
    """Add the command."""
    doc = "What models make of distant context: needles, keys, documents, passages that come again."
    command = parser.add_command("longcontext", run, "MODEL... [--on PATH...|--store STORE]", doc)
    add_models(command)
    add_options(command, LongContextConfig, title="the tasks")
    store = "Store whose held-out documents to take (all, where it holds none out); null: what the models hold out."
    add_option(command, "--store", str | None, store, default=None)
    number = "Documents to take, chosen by their text and --seed; 0: all."
    add_option(command, "--num-documents", int, number, default=2000, least=0)
    command.add_argument("--json", metavar="FILE", help="Write all results as JSON, too.")
    command.add_argument("--page", metavar="FILE.html", help="Write a page with plots, too.")
    add_documents(command, "Documents to plant in and to ask about.", held_out=True)


def run(arguments: argparse.Namespace) -> int:
    """Print the tables and write what was asked for."""
    config = take_options(arguments, LongContextConfig)
    if arguments.on and arguments.store is not None:
        raise EvaluationError("documents must be named once, got --on and --store; leave one out")
    check_outputs({"--json": arguments.json, "--page": arguments.page}, arguments.on)
    from evaluation.boundaries import find_begin
    from evaluation.longcontext.measuring import make_tasks, measure
    from evaluation.longcontext.tables import Comparison, make_tables, to_json
    from tokenizer.measures.table import to_markdown
    from tokenizer.progress import show_progress
    from training.devices import use_compilation_cache

    use_compilation_cache()
    subjects = open_models(arguments)
    begins = {name: find_begin(subject, arguments.begin) for name, subject in subjects.items()}
    with show_progress() as progress:
        documents = read_documents(arguments, subjects, progress)
        tasks = {
            name: make_tasks(config, subject, documents.documents, begins[name], progress)
            for name, subject in subjects.items()
        }
        cells = {name: measure(subject, tasks[name], progress) for name, subject in subjects.items()}
    comparison = Comparison(config=config, source=documents.describe(), subjects=subjects, cells=cells)
    if arguments.json is not None:
        write_json(arguments.json, to_json(comparison))
    if arguments.page is not None:
        from evaluation.longcontext.page import write_longcontext_page

        write_longcontext_page(Path(arguments.page), comparison)
    print("\n".join([f"{comparison.source}\n", *map(to_markdown, make_tables(comparison))]), end="")
    for output in (arguments.json, arguments.page):
        if output is not None:
            print(f"wrote {output}", file=sys.stderr)
    return 0
