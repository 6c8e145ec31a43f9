"""The commands of ``python -m tokenizer``; heavy modules are imported by the command that needs them."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tokenizer.commands import coding, evaluation, exchange, inspection, pruning, training
from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, run_command

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0, 2 after one line about bad input, 130 after Ctrl-C."""
    with _warning_lines():
        return run_command(
            _make_parser(), arguments, errors=(TokenizerError,), interrupted="interrupted: nothing was written"
        )


class _WarningLines(logging.Handler):
    """Prints what is logged to the standard error of the moment, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"warning: {record.getMessage()}", file=sys.stderr)


@contextmanager
def _warning_lines() -> Iterator[None]:
    logger, handler = logging.getLogger("tokenizer"), _WarningLines(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _make_parser() -> OptionParser:
    parser = OptionParser(
        prog="python -m tokenizer", description="Train and use BPE and source-attributed BPE tokenizers."
    )
    for module in (training, coding, evaluation, inspection, pruning, exchange):
        module.add_commands(parser)
    return parser
