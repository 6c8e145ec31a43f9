"""``report``: one page on runs and tokenizers, alone or compared."""

import argparse
from pathlib import Path

from tokenizer.options import OptionParser, add_option

__all__ = ["add", "run"]


def add(parser: OptionParser) -> None:
    """Add the command."""
    doc = "One page to look at: a run, a tokenizer (with a live splitter of text), or several of them compared."
    command = parser.add_command("report", run, "PLACE... --output FILE.html", doc)
    kinds = (
        "Folder of a run, finished or not, or of a tokenizer (ours, or tokenizer.json of byte-level BPE); others are "
        "compared with the first run."
    )
    command.add_argument("places", nargs="+", metavar="PLACE", help=kinds)
    add_option(command, "--output", str, "File to write: HTML that needs nothing else.", metavar="FILE.html")


def run(arguments: argparse.Namespace) -> int:
    """Write the page and say what it holds."""
    from tokenizer.output import check_output_file, write_file

    output = Path(arguments.output)
    check_output_file(output, arguments.places, name="--output")
    from evaluation.report.page import report_page
    from evaluation.report.places import open_places

    subjects = open_places([Path(place) for place in arguments.places])
    page = report_page(subjects).encode()
    for record in subjects.runs:
        for note in record.notes:
            print(f"{record.name}: {note}")
    for name, opened in subjects.tokenizers.items():
        for note in opened.notes:
            print(f"{name}: {note}")
    write_file(output, page)
    print(
        f"wrote {output}: {_count(len(subjects.runs), 'run')}, {_count(len(subjects.tokenizers), 'tokenizer')}, ",
        end="",
    )
    print(f"{len(page) / 1e6:.2f} MB")
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
