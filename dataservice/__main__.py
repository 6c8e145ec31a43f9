"""Command line of the data service: `python -m dataservice prepare | stats | curriculum | verify | show | serve`."""

import sys
from collections.abc import Sequence
from dataclasses import fields

from dataservice.commands import run_curriculum, run_prepare, run_serve, run_show, run_stats, run_verify
from dataservice.config import DataConfig
from dataservice.errors import DataError
from dataservice.executors import Executor
from dataservice.service.settings import ServerSettings
from tokenizer.corpus.config import CorpusConfig
from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, add_option, add_options, field_docs, run_command

# Where a store elsewhere is mirrored, and how it is reached.
PLACE_SETTINGS = ("cache", "cache_bytes", "token_file", "root_certificates")
ROW_SETTINGS_NOT_NEEDED = ("store", *PLACE_SETTINGS, "workers", "executor", "ahead_windows", "keep_windows", "prefetch")


def make_parser() -> OptionParser:
    """The parser of all commands."""
    parser = OptionParser(prog="python -m dataservice", description="Documents to token stores, and a look into them.")
    usage = "PATH... --tokenizer DIR --output STORE"
    prepare = parser.add_command("prepare", run_prepare, usage, "Make a store of documents; run it again to carry on.")
    prepare.add_argument("paths", nargs="+", metavar="PATH", help=field_docs(CorpusConfig)["paths"])
    add_option(prepare, "--tokenizer", str, "Folder of the tokenizer.", metavar="DIR")
    add_option(prepare, "--output", str, "Folder of the store; made when missing.", metavar="STORE")
    add_option(prepare, "--workers", int, field_docs(DataConfig)["workers"], default=DataConfig.workers, least=0)
    add_option(prepare, "--executor", Executor, field_docs(DataConfig)["executor"], default=DataConfig.executor)
    add_options(prepare, CorpusConfig, title="documents", without=("paths",))

    verify = parser.add_command("verify", run_verify, "STORE", "Check every byte of a store.")
    stats = parser.add_command("stats", run_stats, "STORE", "Count what training on a store would see.")
    # A plain argument, as of `python -m tokenizer evaluate`: no setting of the data.
    stats.add_argument("--page", metavar="FILE.html", help="Write a page with plots, too.")
    show = parser.add_command("show", run_show, "STORE --step T", "Print the text and source of a step's rows.")
    curriculum = parser.add_command("curriculum", run_curriculum, "STORE", "Print which lengths every step takes.")
    serve = parser.add_command(
        "serve", run_serve, "STORE", "Let trainers elsewhere read a store: data.store=grpc://..."
    )
    serve.add_argument("folder", metavar="STORE", help="Folder of the store, which may still be in preparation.")
    add_options(serve, ServerSettings, title="the server")
    not_places = {field.name for field in fields(DataConfig)} - set(PLACE_SETTINGS)
    for command in (verify, stats, curriculum, show):
        mixed = "" if command is verify else ' Or a mixture, "{STORE: weight, STORE: weight}".'
        one = f"Folder or URL of the store, or grpc:// servers of it.{mixed}"
        command.add_argument("folder", metavar="STORE", help=one)
        add_options(command, DataConfig, title="stores that lie elsewhere", without=not_places)
    add_option(show, "--step", int, "Number of the step, from 0.", metavar="T", least=0)
    every = "A line for so many steps, 1 for each; 0: a line for a tenth of a cycle."
    add_option(curriculum, "--every", int, every, default=0, metavar="N", least=0)
    for command in (stats, curriculum, show):
        add_options(command, DataConfig, title="rows and their order", without=ROW_SETTINGS_NOT_NEEDED)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; 2 for bad input, said in one line."""
    return run_command(
        make_parser(),
        arguments,
        errors=(DataError, TokenizerError),
        interrupted="interrupted; run the same command again to carry on",
    )


if __name__ == "__main__":
    sys.exit(main())
