"""``perplexity``: loss and bits per byte of models on the same documents."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.commands.documents import read_documents
from evaluation.commands.models import add_models, check_outputs, open_models, write_json
from evaluation.errors import EvaluationError
from tokenizer.commands.documents import add_documents
from tokenizer.options import OptionParser, add_option

if TYPE_CHECKING:
    from evaluation.perplexity_tables import Comparison
    from tokenizer.measures.page import Table

__all__ = ["add", "run"]


def add(parser: OptionParser) -> None:
    """Add the command."""
    doc = "Loss and bits per byte of documents, by length, position, language and repository."
    command = parser.add_command("perplexity", run, "MODEL... [--on PATH...|--store STORE|--rows]", doc)
    add_models(command)
    ends = "Special token after the last; null: <eod>, or what config.json has."
    add_option(command, "--end", str | None, ends, default=None)
    contexts = "Most tokens before a token, one or several; empty: the longest that all models were trained on."
    add_option(command, "--context", tuple[int, ...], contexts, default=())
    stride = "Tokens by which windows move over a document longer than the context; null: half of the context."
    add_option(command, "--stride", int | None, stride, default=None, least=1)
    store = "Store whose held-out documents to take (all, where it holds none out); null: what the models hold out."
    add_option(command, "--store", str | None, store, default=None)
    rows = "Instead of documents, the held-out rows that train.py evaluates a run on: its own held-out loss."
    command.add_argument("--rows", action="store_true", help=rows)
    number = "Documents to take, chosen by their text and --seed; 0: all."
    add_option(command, "--num-documents", int, number, default=0, least=0)
    add_option(command, "--seed", int, "Seed of the choice of documents.", default=0)
    command.add_argument("--json", metavar="FILE", help="Write all results as JSON, too.")
    command.add_argument("--page", metavar="FILE.html", help="Write a page with plots, too.")
    add_documents(command, "Documents to predict.", held_out=True)


def run(arguments: argparse.Namespace) -> int:
    """Print the tables and write what was asked for."""
    _check(arguments)
    from training.devices import use_compilation_cache

    use_compilation_cache()
    if arguments.rows:
        return _run_rows(arguments)
    from evaluation.boundaries import find_boundaries
    from evaluation.perplexity import measure
    from evaluation.perplexity_tables import Comparison, make_tables, to_json
    from evaluation.windows import check_context
    from tokenizer.progress import show_progress

    for context in arguments.context:
        check_context(context, arguments.stride)
    subjects = open_models(arguments)
    boundaries = {name: find_boundaries(one, arguments.begin, arguments.end) for name, one in subjects.items()}
    contexts = sorted(set(arguments.context)) or [min(subject.max_length for subject in subjects.values())]
    for context in contexts:
        check_context(context, arguments.stride)
    with show_progress() as progress:
        documents = read_documents(arguments, subjects, progress)
        losses = {
            name: measure(
                subject,
                documents,
                boundaries[name],
                contexts=contexts,
                stride=arguments.stride,
                progress=lambda done, total, name=name: progress(f"score tokens by {name}", done, total),
            )
            for name, subject in subjects.items()
        }
    comparison = Comparison(documents=documents, subjects=subjects, losses=losses)
    _write(arguments, comparison, to_json(comparison))
    _show(make_tables(comparison), arguments)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    sources = {"--on": bool(arguments.on), "--store": arguments.store is not None, "--rows": arguments.rows}
    given = [option for option, is_given in sources.items() if is_given]
    if len(given) > 1:
        raise EvaluationError(f"documents must be named once, got {' and '.join(given)}; leave all but one out")
    if arguments.rows:
        for option in ("--context", "--stride", "--num-documents", "--begin", "--end", "--page"):
            if getattr(arguments, option.removeprefix("--").replace("-", "_")):
                raise EvaluationError(f"{option} must be left out with --rows, which are those of training")
    check_outputs({"--json": arguments.json, "--page": arguments.page}, arguments.on)


def _run_rows(arguments: argparse.Namespace) -> int:
    """train.py's own held-out loss: the rows of training, through its compiled evaluation steps."""
    from evaluation.held_out_rows import held_out_rows
    from tokenizer.measures.page import Table
    from tokenizer.progress import show_progress

    subjects = open_models(arguments)
    with show_progress() as progress:
        found = {name: held_out_rows(subject, progress) for name, subject in subjects.items()}
    if arguments.json is not None:
        write_json(arguments.json, {"rows": found})
    keys = list(dict.fromkeys(key for values in found.values() for key in values))
    rows = [(key, *(f"{values[key]:.4f}" if key in values else "-" for values in found.values())) for key in keys]
    caption = "Held-out rows as train.py evaluates them, <eod> counted (nats per token)"
    _show([Table(columns=("measure", *found), rows=rows, caption=caption)], arguments)
    return 0


def _write(arguments: argparse.Namespace, comparison: "Comparison", content: dict) -> None:
    """Before anything is printed, as whoever reads that may leave."""
    if arguments.json is not None:
        write_json(arguments.json, content)
    if arguments.page is not None:
        from evaluation.perplexity_page import write_perplexity_page

        write_perplexity_page(Path(arguments.page), comparison)


def _show(tables: list["Table"], arguments: argparse.Namespace) -> None:
    from tokenizer.measures.table import to_markdown

    print("\n".join(map(to_markdown, tables)), end="")
    for output in (arguments.json, arguments.page):
        if output is not None:
            print(f"wrote {output}", file=sys.stderr)
