"""SA-BPE (https://arxiv.org/abs/2604.14053) against plain BPE: vocabularies and small models, one command.

    python -m benchmarks.reproduce_sabpe --output DIR --train TRAIN/*.parquet --on EVAL/*.parquet
    ... --quick     under 10 minutes on two cores; shows that everything works, and is too small to tell anything
    ... --full      larger models, 5 seeds: a day, or a GPU
    ... --report    renders what is there already, and runs nothing

By default: all priorities, each with thresholds of R and of L, in 32,768 tokens; single languages in sizes that what
there is of them carries; Llamas with F and with F*logR*L in 4,096 tokens, trained on equal bytes, and their
under-trained tokens; 3 seeds; at most 3 hours on two cores. Documents need a repository and a language each.

May be stopped anywhere: the same command goes on, models from their last checkpoint. DIR gets results.json, report.md,
plots/, commands.md (the exact commands of every model), and what they are made from: vocabularies/, models/ and runs/.
More seeds (--seeds) and parts (--parts) may be added later; other sizes need another folder.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from benchmarks.plan import (
    PlanError,
    add_size_options,
    check_as_begun,
    check_same_documents,
    check_settings,
    identify,
    read_plan,
    write_plan,
)
from benchmarks.sabpe.scales import PARTS, SCALES, Scale
from tokenizer.options import OptionParser, run_command


def make_parser() -> OptionParser:
    parser = OptionParser(
        prog="python -m benchmarks.reproduce_sabpe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of everything")
    parser.add_argument("--train", nargs="+", default=[], metavar="PATH", help="documents to learn from")
    parser.add_argument(
        "--on", nargs="+", default=[], metavar="PATH", help="documents of other repositories to measure on"
    )
    add_size_options(parser, seeds="default 3; quick 1, full 5", full="larger models; a day, or a GPU")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="these alone (default all)")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="of the tokenizers (default 32768; quick 4096)")
    parser.add_argument(
        "--model-vocab-size", type=int, metavar="N", help="of models (default 4096; quick 2048, full 8192)"
    )
    parser.add_argument(
        "--model-bytes", type=float, metavar="N", help="of text a model (default 2e7; quick 1e6, full 4.8e7)"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """All that is not done, then the report."""
    from benchmarks.processes import lock
    from benchmarks.publishing import note_command
    from benchmarks.sabpe.models import base_config
    from benchmarks.sabpe.publishing import write_results
    from tokenizer.output import check_writable

    output: Path = options.output.absolute()
    scale = choose_scale(options, output)
    if not options.report:
        if not options.train or not options.on:
            raise PlanError("--train and --on must name documents, got none; write --train PATH... --on PATH...")
        check_settings(base_config(scale), scale.overrides)
        check_writable(output)
        with lock(output / "runs"):
            check_same_documents(output, {"--train": identify(options.train), "--on": identify(options.on)})
            write_plan(scale, output)
            note_command("benchmarks.reproduce_sabpe", output)
            _do(options, scale, output)
    write_results(scale, output, options.document)
    return 0


def _do(options: argparse.Namespace, scale: Scale, output: Path) -> None:
    from benchmarks.sabpe.documents import read_documents
    from benchmarks.sabpe.languages import choose_languages
    from benchmarks.sabpe.models import make_data, model_jobs, run_jobs
    from benchmarks.sabpe.results import note_languages, read_languages
    from benchmarks.sabpe.vocabularies import make_vocabularies, vocabularies_of
    from tokenizer import show_progress

    @cache
    def trained():
        return check_documents(read_documents(options.train), "--train")

    def measured():
        return check_documents(read_documents(options.on), "--on")

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if "languages" in scale.parts and not read_languages(output):
        note_languages(output, choose_languages(trained(), measured(), scale.vocab_size, scale.most_languages))
    wanted = vocabularies_of(scale, read_languages(output))
    if any(not each.path(output).exists() for each in wanted):
        make_vocabularies(wanted, trained(), measured(), output, tell)
    jobs = model_jobs(scale)
    if jobs:
        with show_progress() as progress:
            make_data(jobs, scale, trained, output, progress)
        trained.cache_clear()  # what models run beside should be free for them
        run_jobs(jobs, scale, output, tell)


def check_documents(documents, option: str):
    """Refuse what R or L cannot be counted on.

    Raises:
        PlanError: fewer than two repositories are named.
    """
    repositories = {document.repository for document in documents}
    if len(repositories) < 2 or "" in repositories:
        raise PlanError(
            f"{option} must name the repository of every document, two or more, got {len(repositories - {''})} and "
            f"{sum(not document.repository for document in documents)} documents of none; add a column repository"
        )
    return documents


def choose_scale(options: argparse.Namespace, output: Path) -> Scale:
    """The scale that options ask for; a report takes that of the folder.

    Raises:
        PlanError: the folder was begun with another, or the options contradict each other.
    """
    if options.report:
        return read_plan(Scale, output)
    scale = SCALES[options.scale or "default"].with_options(
        seeds=options.seeds,
        parts=tuple(options.parts) if options.parts else None,
        vocab_size=options.vocab_size,
        model_vocab_size=options.model_vocab_size,
        model_bytes=options.model_bytes,
        overrides=tuple(options.set),
    )
    check_scale(scale)
    check_as_begun(scale, output)
    return scale


def check_scale(scale: Scale) -> None:
    """Refuse sizes that nothing can be made of, before anything is."""
    least = {"seeds": 1, "vocab_size": 512, "model_vocab_size": 512, "model_bytes": 32 * scale.tokens_per_step}
    for name, number in least.items():
        if getattr(scale, name) < number:
            option = name.replace("_", "-")
            raise PlanError(f"--{option} must be at least {number}, got {getattr(scale, name)}; raise it")


def main(arguments: Sequence[str] | None = None) -> int:
    from benchmarks.processes import ProcessFailedError
    from dataservice.errors import DataError
    from evaluation import EvaluationError
    from tokenizer.errors import TokenizerError
    from training.errors import TrainingError

    errors = (PlanError, ProcessFailedError, TokenizerError, DataError, EvaluationError, TrainingError)
    return run_command(make_parser(), arguments, errors=errors, interrupted="interrupted; run it again to go on")


if __name__ == "__main__":
    sys.exit(main())
