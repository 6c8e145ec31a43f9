"""Command line of the data service: `python -m dataservice prepare | stats | verify | show`."""

import sys
from collections.abc import Sequence

from dataservice.commands import run_prepare, run_show, run_stats, run_verify
from dataservice.config import DataConfig
from dataservice.errors import DataError
from dataservice.options import OptionParser, add_options
from tokenizer.corpus.config import CorpusConfig
from tokenizer.errors import TokenizerError

EXIT_BAD_INPUT, EXIT_INTERRUPTED = 2, 130
ROW_SETTINGS_NOT_NEEDED = ("store", "cache", "workers", "prefetch")


def make_parser() -> OptionParser:
    """The parser of all commands."""
    parser = OptionParser(prog="python -m dataservice", description="Documents to token stores, and a look into them.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    prepare = commands.add_parser("prepare", help="make a store of documents; run it again to carry on")
    prepare.add_argument("sources", nargs="+", metavar="PATH", help="packages:, a folder, a file or a glob of files")
    prepare.add_argument("--tokenizer", required=True, metavar="DIR", help="folder of a tokenizer")
    prepare.add_argument("--output", required=True, metavar="STORE", help="folder of the store; made when missing")
    prepare.add_argument("--workers", type=int, default=0, metavar="N", help="processes; 0: one per core (default: 0)")
    add_options(prepare, CorpusConfig, without=("paths",))
    prepare.set_defaults(run=run_prepare)

    verify = commands.add_parser("verify", help="check every byte of a store")
    verify.set_defaults(run=run_verify)
    stats = commands.add_parser("stats", help="count what training on a store would see")
    stats.set_defaults(run=run_stats)
    show = commands.add_parser("show", help="print the text and source of a step's rows")
    show.add_argument("--step", type=int, required=True, metavar="T", help="number of the step, from 0")
    show.set_defaults(run=run_show)
    for command in (verify, stats, show):
        command.add_argument("folder", metavar="STORE", help="folder of a store")
    for command in (stats, show):
        add_options(command, DataConfig, without=ROW_SETTINGS_NOT_NEEDED)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; 2 for bad input, said in one line."""
    options = make_parser().parse_args(arguments)
    try:
        return options.run(options)
    except (DataError, TokenizerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted; run the same command again to carry on", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
