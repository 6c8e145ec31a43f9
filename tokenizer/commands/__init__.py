"""The commands of ``python -m tokenizer``; heavy modules are imported by the command that needs them."""

from collections.abc import Sequence

from tokenizer.commands import coding, evaluation, exchange, inspection, pruning, training
from tokenizer.errors import TokenizerError
from tokenizer.log_lines import print_warnings
from tokenizer.options import OptionParser, run_command

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0, 2 after one line about bad input, 130 after Ctrl-C."""
    with print_warnings():
        return run_command(
            _make_parser(), arguments, errors=(TokenizerError,), interrupted="interrupted: nothing was written"
        )


def _make_parser() -> OptionParser:
    parser = OptionParser(
        prog="python -m tokenizer", description="Train and use BPE and source-attributed BPE tokenizers."
    )
    for module in (training, coding, evaluation, inspection, pruning, exchange):
        module.add_commands(parser)
    return parser
