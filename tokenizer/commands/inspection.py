"""``inspect``: how a text is split, and what a token is made of and occurs in."""

import argparse
import io
import sys
from typing import TYPE_CHECKING

from tokenizer.commands.documents import DocumentReader, add_documents
from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, add_option

if TYPE_CHECKING:
    from tokenizer.measures.inspection import Inspector, SplitText
    from tokenizer.measures.occurrences import Survey

__all__ = ["add_commands"]


def add_commands(parser: OptionParser) -> None:
    """Add ``inspect``."""
    doc = "Show how texts are split, and what tokens are made of and occur in."
    inspect = parser.add_command("inspect", _inspect, "--tokenizer DIR [TEXT ...]", doc)
    add_option(inspect, "--tokenizer", str, "Folder of the tokenizer.", metavar="DIR")
    inspect.add_argument("texts", nargs="*", metavar="TEXT", help="Text to split; after --on, write -- before it.")
    names = "A token: its id, its bytes as this command shows them (spaces may be plain), or a special token's name."
    inspect.add_argument("--token", action="append", default=[], metavar="ID|BYTES", help=f"{names} May be repeated.")
    add_documents(inspect, "Documents to look for the tokens in.")
    most = "Name so many tokens that hardly ever stay when they are made, in --on."
    add_option(inspect, "--intermediates", int, most, default=0, least=0)
    inspect.add_argument("--json", action="store_true", help="Print JSON, which names everything.")


def _inspect(options: argparse.Namespace) -> int:
    if not (options.texts or options.token or options.intermediates):
        raise TokenizerError("TEXT, --token or --intermediates must be given, got none; see --help")
    if options.intermediates and not options.on:
        raise TokenizerError("--on must name documents for --intermediates, got none")
    from tokenizer.measures.inspection import Inspector
    from tokenizer.measures.occurrences import survey
    from tokenizer.progress import show_progress
    from tokenizer.vocabulary import Tokenizer

    inspector = Inspector(Tokenizer.load(options.tokenizer))
    splits = [inspector.split(text) for text in options.texts]
    asked = [inspector.find(name) for name in options.token]
    ids = list(dict.fromkeys([*asked, *(number for split in splits for number in split.ids)]))
    surveyed = None
    if options.on:
        reader = DocumentReader(options, options.on)
        with show_progress() as progress:
            surveyed = survey(inspector.tokenizer, ids, reader.read(progress))
        reader.report_skipped()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may know fewer characters than tokens have
    show = _print_json if options.json else _print_lines
    show(inspector, splits, ids, surveyed, options.intermediates)
    return 0


def _print_lines(
    inspector: "Inspector", splits: list["SplitText"], ids: list[int], survey: "Survey | None", num_intermediates: int
) -> None:
    from tokenizer.measures.inspection_report import intermediates_lines, text_lines, token_lines

    parts = [list(text_lines(split, inspector)) for split in splits]
    parts += [list(token_lines(inspector.describe(number), inspector, survey)) for number in ids]
    if survey and num_intermediates:
        parts.append(list(intermediates_lines(survey, inspector, num_intermediates)))
    print("\n\n".join("\n".join(lines) for lines in parts))


def _print_json(
    inspector: "Inspector", splits: list["SplitText"], ids: list[int], survey: "Survey | None", num_intermediates: int
) -> None:
    import json

    from tokenizer.measures.inspection_report import survey_json, text_json, token_json

    content = {
        "fingerprint": inspector.tokenizer.fingerprint,
        "texts": [text_json(split) for split in splits],
        "tokens": [token_json(inspector.describe(number), inspector, survey) for number in ids],
    }
    if survey:
        content["documents"] = survey_json(survey, inspector, num_intermediates)
    print(json.dumps(content, ensure_ascii=False, indent=1))
