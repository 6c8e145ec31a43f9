"""``lm-eval``: the command line of lm-evaluation-harness, with our models in it."""

import argparse
import sys
from importlib.util import find_spec

from evaluation.errors import EvaluationError
from tokenizer.options import OptionParser

__all__ = ["add", "run"]


def add(parser: OptionParser) -> None:
    """Add the command; all that follows it is for lm_eval."""
    doc = "Run tasks of lm-evaluation-harness (extra eval); its own options follow, see lm-eval --help."
    parser.add_command("lm-eval", run, "--model_args run=RUN --tasks TASK,...", doc, passes_on=True)


_INSTALL = "pip install -c constraints.txt -e '.[eval]'"


def run(arguments: argparse.Namespace) -> int:
    """Register our models, and hand over: `--model dyadlm` where no other is asked for."""
    if find_spec("lm_eval") is None:
        if {"--help", "-h"} & set(arguments.words):
            arguments.parser.print_help()
            print(f"\nIts own options are shown once it is installed: {_INSTALL}")
            return 0
        raise EvaluationError(f"lm_eval must be installed, got none; {_INSTALL}")
    from lm_eval.__main__ import cli_evaluate  # pyright: ignore[reportMissingImports]  (an extra)

    import evaluation.lm_eval  # noqa: F401  (registers the model)
    from training.devices import use_compilation_cache

    use_compilation_cache()
    words = list(arguments.words)
    names_model = any(word.partition("=")[0] in ("--model", "-M") for word in words)
    if words and words[0] not in ("ls", "validate") and "--help" not in words and not names_model:
        words += ["--model", "dyadlm"]
    # lm_eval reads the command line of the process.
    sys.argv = ["lm_eval", *words]
    cli_evaluate()
    return 0
