"""``undertrained``: tokens that a model has hardly learnt."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.commands.models import add_models, check_outputs, open_models, write_json
from evaluation.errors import EvaluationError
from tokenizer.options import OptionParser, add_option

if TYPE_CHECKING:
    from evaluation.subject import Subject
    from evaluation.undertrained import Occurrences, Undertrained
    from tokenizer.progress import Progress

__all__ = ["add", "run"]

INDICATORS = "cosine, cosine_without_mean, cosine_without_component, euclidean, plane or input_norm"


def add(parser: OptionParser) -> None:
    """Add the command."""
    doc = "Tokens that a model has hardly learnt: found by its embeddings, verified by asking for them."
    command = parser.add_command("undertrained", run, "MODEL...", doc)
    add_models(command)
    chosen = f"What candidates are chosen by, low first: {INDICATORS}."
    add_option(command, "--indicator", str, chosen, default="cosine")
    percent = "Candidates are the tokens at or under this percentile of the indicator."
    add_option(command, "--percent", float, percent, default=2.0)
    controls = "Tokens of median frequency to ask for too, which tell whether a model can copy at all."
    add_option(command, "--num-controls", int, controls, default=100, least=1)
    unused = "Ids known to be unused; empty: tokens with reserved names, else rows above the vocabulary."
    add_option(command, "--unused", tuple[int, ...], unused, default=())
    stores = (
        "Stores that the models were trained on, one for each or one for all: how often each token was there, in the "
        "steps of a run whose store it is, else in the whole store."
    )
    command.add_argument("--store", nargs="+", default=[], metavar="STORE", help=stores)
    add_option(command, "--rows", int, "Candidates of each model to print.", default=20, metavar="N", least=0)
    command.add_argument("--json", metavar="FILE", help="Write what was found as JSON, too.")
    command.add_argument("--page", metavar="FILE.html", help="Write a page with plots, too.")
    removal = "Write the verified tokens of one model, for `python -m tokenizer prune --remove FILE`."
    command.add_argument("--removal", metavar="FILE", help=removal)


def run(arguments: argparse.Namespace) -> int:
    """Print the tables and write what was asked for."""
    _check(arguments)
    from evaluation.undertrained import Settings, check_subject, find_undertrained, make_tables
    from tokenizer.measures.table import to_markdown
    from tokenizer.progress import show_progress
    from training.devices import use_compilation_cache

    settings = Settings(
        indicator=arguments.indicator,
        percent=arguments.percent,
        num_controls=arguments.num_controls,
        unused=arguments.unused,
        begin=arguments.begin,
    )
    use_compilation_cache()
    subjects = open_models(arguments)
    for subject in subjects.values():
        check_subject(subject, settings)
    with show_progress() as progress:
        counted = _count(arguments.store, subjects, progress)
        models = [
            find_undertrained(subject, settings, name=name, occurrences=counted.get(name), progress=progress)
            for name, subject in subjects.items()
        ]
    written = _write(arguments, models)
    print("\n".join(map(to_markdown, make_tables(models, arguments.rows))), end="")
    for line in written:
        print(line, file=sys.stderr)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    outputs = {"--json": arguments.json, "--page": arguments.page, "--removal": arguments.removal}
    check_outputs(outputs, [*arguments.models, *arguments.store])
    if len(arguments.store) not in (0, 1, len(arguments.models)):
        raise EvaluationError(
            f"--store must be one for all models or one for each of {len(arguments.models)}, got {len(arguments.store)}"
        )
    if arguments.removal is not None and len(arguments.models) > 1:
        raise EvaluationError(f"--removal must be of one model, got {len(arguments.models)}; name them one by one")


def _count(stores: list[str], subjects: dict[str, "Subject"], progress: "Progress") -> dict[str, "Occurrences"]:
    """Occurrences of each model's tokens, by its name."""
    from dataservice import open_store
    from evaluation.undertrained import find_occurrences

    places = stores * len(subjects) if len(stores) == 1 else stores
    return {
        name: find_occurrences(subject, open_store(place, subject.tokenizer.fingerprint), progress)
        for (name, subject), place in zip(subjects.items(), places, strict=False)  # without stores none is counted
    }


def _write(arguments: argparse.Namespace, models: list["Undertrained"]) -> list[str]:
    """Write the files that were asked for, before anything is printed, and say so."""
    from evaluation.undertrained import make_sections, removal_json, to_json
    from tokenizer.measures.page import write_page
    from tokenizer.measures.spelling import show_count

    written = []
    if arguments.json is not None:
        write_json(arguments.json, [to_json(found) for found in models])
        written.append(f"wrote {arguments.json}")
    if arguments.page is not None:
        title = f"Under-trained tokens: {', '.join(found.name for found in models)}"
        write_page(Path(arguments.page), title, make_sections(models))
        written.append(f"wrote {arguments.page}")
    if arguments.removal is not None:
        removal = removal_json(models[0])
        write_json(arguments.removal, removal)
        why = "" if models[0].has_verdict else ", as there is no verdict"
        written.append(f"wrote {arguments.removal}: {show_count(len(removal['ids']), 'token')} to remove{why}")
    return written
