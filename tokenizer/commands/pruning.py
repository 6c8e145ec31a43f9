"""``prune``: a smaller tokenizer from a large one, and what that costs."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tokenizer.commands.documents import DocumentReader, add_documents
from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, add_option

if TYPE_CHECKING:
    from tokenizer.counting.counts import WordCounts
    from tokenizer.measures.pruning import CurvePoint
    from tokenizer.progress import Progress
    from tokenizer.vocabulary import Tokenizer

__all__ = ["add_commands"]

NUM_CURVE_POINTS = 17


def add_commands(parser: OptionParser) -> None:
    """Add ``prune``."""
    usage = "DIR --output DIR [--vocab-size N|--remove FILE]"
    doc = "Take merges from a tokenizer until it has N tokens, or those that are listed."
    prune = parser.add_command("prune", _prune, usage, doc)
    prune.add_argument("tokenizer", metavar="DIR", help="Folder of the tokenizer.")
    add_option(prune, "--output", str, "Folder to write the smaller tokenizer to.", metavar="DIR")
    size = "Tokens to keep, bytes and special tokens too; must be given unless --remove is."
    add_option(prune, "--vocab-size", int | None, size, default=None)
    listed = (
        "Instead, take out the tokens of a list, as `python -m evaluation undertrained --removal` writes it; those "
    )
    listed += "of which tokens that stay are made stay too."
    prune.add_argument("--remove", metavar="FILE", help=listed)
    ways = "Which merges go: end takes the last; leaves, of the tokens that are part of no other, the rarest in --on."
    add_option(prune, "--by", Literal["end", "leaves"], ways, default="end")
    add_documents(prune, "Documents that say how rare tokens are, and what is lost.")
    curve = "Compression at sizes between, pruned both ways, to write as a page or as JSON."
    prune.add_argument("--curve", metavar="FILE.html|FILE.json", help=curve)
    other = "Documents to measure the curve on (those of --on chose the leaves, which flatters them). Default: --on."
    prune.add_argument("--curve-on", nargs="+", default=[], metavar="PATH", help=other)
    sizes = f"Sizes of the curve. Empty: {NUM_CURVE_POINTS} from --vocab-size to the whole."
    add_option(prune, "--curve-sizes", tuple[int, ...], sizes, default=())


def _prune(options: argparse.Namespace) -> int:
    _check(options)
    if options.remove is not None:
        return _remove(options)
    from tokenizer.artefact import check_output
    from tokenizer.counting.counts import count_words
    from tokenizer.measures.pruning import check_sizes, prune
    from tokenizer.measures.pruning_report import curves_table
    from tokenizer.measures.table import to_markdown
    from tokenizer.progress import show_progress
    from tokenizer.vocabulary import Tokenizer

    replaces = check_output(Path(options.output))
    original = Tokenizer.load(options.tokenizer)
    check_sizes(original, [options.vocab_size, *options.curve_sizes])
    chosen = DocumentReader(options, options.on)
    measured = DocumentReader(options, options.curve_on, "--curve-on")
    counts, measured_on = None, None
    with show_progress() as progress:
        if options.on:
            counts = count_words(chosen.read(progress), original.pattern)
        if options.curve_on:
            measured_on = count_words(measured.read(progress, "read documents of the curve"), original.pattern)
        pruned = prune(original, options.vocab_size, by=options.by, counts=counts)
        curves = _measure_curves(options, original, counts, measured_on, progress)
    pruned.save(options.output)
    if curves:
        _write_curves(options, original, curves)
    chosen.report_skipped()
    measured.report_skipped()
    if curves:
        print(to_markdown(curves_table(curves)))
        print(f"wrote {options.curve}", file=sys.stderr)
    _say_written(options, original, pruned, replaces)
    return 0


def _remove(options: argparse.Namespace) -> int:
    from tokenizer.artefact import check_output
    from tokenizer.measures.pruning import remove_tokens
    from tokenizer.measures.removal import plan_removal, read_removal
    from tokenizer.measures.spelling import show_count
    from tokenizer.vocabulary import Tokenizer

    replaces = check_output(Path(options.output))
    original = Tokenizer.load(options.tokenizer)
    removal = plan_removal(original, read_removal(Path(options.remove), original))
    pruned = remove_tokens(original, removal)
    pruned.save(options.output)
    for number, why in (
        (removal.num_parts, "parts of tokens that stay"),
        (removal.num_fixed, "bytes or special tokens"),
    ):
        if number:
            print(f"kept {show_count(number, 'listed token')}: {why}", file=sys.stderr)
    _say_written(options, original, pruned, replaces)
    return 0


def _say_written(options: argparse.Namespace, original: "Tokenizer", pruned: "Tokenizer", replaces: bool) -> None:
    print(
        f"wrote {options.output}: {pruned.vocab_size} of {original.vocab_size} tokens, {pruned.fingerprint}"
        + ", in place of the tokenizer that was there" * replaces
    )


def _measure_curves(
    options: argparse.Namespace,
    original: "Tokenizer",
    counts: "WordCounts | None",
    measured_on: "WordCounts | None",
    progress: "Progress",
) -> dict[str, list["CurvePoint"]]:
    """The curve of each way to prune; none when it is not asked for."""
    from tokenizer.measures.pruning import pruning_curve, spread_sizes

    if options.curve is None or counts is None:
        return {}
    sizes = options.curve_sizes or spread_sizes(original, options.vocab_size, NUM_CURVE_POINTS)
    whole = [*sizes, original.vocab_size]
    return {
        by: pruning_curve(original, counts, whole, by=by, measured_on=measured_on, progress=progress)
        for by in ("end", "leaves")
    }


def _check(options: argparse.Namespace) -> None:
    if options.remove is not None:
        others = {"--vocab-size": options.vocab_size, "--by": options.by != "end" and options.by, "--on": options.on}
        others |= {"--curve": options.curve, "--curve-on": options.curve_on, "--curve-sizes": options.curve_sizes}
        for option, value in others.items():
            if value:
                raise TokenizerError(f"{option} must be left out with --remove, which says what goes, got {value}")
    elif options.vocab_size is None:
        raise TokenizerError("--vocab-size must be given, got nothing; or name a list of tokens with --remove")
    if options.by == "leaves" and not options.on:
        raise TokenizerError("--on must name documents for --by leaves, got none; leaves go by how rare they are there")
    if options.curve is None:
        for option, value in (("--curve-on", options.curve_on), ("--curve-sizes", options.curve_sizes)):
            if value:
                raise TokenizerError(f"--curve must name a file for {option}, got none")
        return
    if not options.on:
        raise TokenizerError("--on must name documents for --curve, got none; it tells what they lose")
    if Path(options.curve).suffix not in (".html", ".json"):
        raise TokenizerError(f"--curve must be a file ending in .html or .json, got {options.curve}")
    from tokenizer.output import check_output_file, resolve

    check_output_file(Path(options.curve), [*options.on, *options.curve_on], name="--curve")
    if resolve(Path(options.output)) in resolve(Path(options.curve)).parents:
        raise TokenizerError(
            f"--curve must not lie in the folder of --output, got {options.curve}; choose another place"
        )


def _write_curves(options: argparse.Namespace, original: "Tokenizer", curves: dict[str, list["CurvePoint"]]) -> None:
    from tokenizer.measures.page import write_page
    from tokenizer.measures.pruning_report import curves_json, curves_sections
    from tokenizer.output import write_file

    on = [Path(path).name for path in options.curve_on or options.on]
    if options.curve.endswith(".json"):
        content = {"fingerprint": original.fingerprint, "on": on, "curves": curves_json(curves)}
        write_file(Path(options.curve), (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())
    else:
        notes = [
            f"{', '.join(on)}, encoded by vocabularies from which merges were taken.",
            "end: the last merges go first. leaves: of the tokens that are part of no other, the rarest goes first.",
        ]
        write_page(options.curve, f"Pruning {Path(options.tokenizer).name}", curves_sections(curves, notes))
