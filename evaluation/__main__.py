"""Command line of evaluation: `python -m evaluation perplexity | choices | longcontext | undertrained | report`."""

import sys
from collections.abc import Sequence

from dataservice.errors import DataError
from evaluation.commands import choices, lm_eval, longcontext, perplexity, report, undertrained
from evaluation.errors import EvaluationError
from model.errors import ModelError
from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, run_command
from training.errors import TrainingError

# Each with add(parser: OptionParser) -> None.
COMMANDS = (choices, lm_eval, longcontext, perplexity, report, undertrained)


def make_parser() -> OptionParser:
    """The parser of all commands."""
    parser = OptionParser(prog="python -m evaluation", description="Trained models and tokenizers, judged.")
    for command in COMMANDS:
        command.add(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 2 for bad input, said in one line."""
    return run_command(
        make_parser(),
        arguments,
        errors=(EvaluationError, TrainingError, ModelError, TokenizerError, DataError),
        interrupted="interrupted",
    )


if __name__ == "__main__":
    sys.exit(main())
