"""Models that a command compares: opened by name, with the options that say how."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.errors import EvaluationError
from tokenizer.options import OptionParser, add_option

if TYPE_CHECKING:
    from evaluation.subject import Subject

__all__ = ["add_models", "check_outputs", "open_models", "write_json"]


def add_models(parser: OptionParser) -> None:
    """Add `MODEL...` and the options of how they are opened."""
    kinds = "Run, or folder of transformers with config.json and safetensors; several are compared."
    parser.add_argument("models", nargs="+", metavar="MODEL", help=kinds)
    add_option(parser, "--step", int | None, "Step of a checkpoint of runs; null: the newest.", default=None, least=0)
    base = "Base of the rotary embedding; null: that of the model."
    add_option(parser, "--rope-base", float | None, base, default=None)
    begins = "Special token before the first; null: <eod>, or what config.json has."
    add_option(parser, "--begin", str | None, begins, default=None)


def open_models(options: argparse.Namespace) -> dict[str, "Subject"]:
    """Open the models by name: their own, or, where two have the same, the paths as given.

    Raises:
        EvaluationError: two are the same, or one is none.
    """
    from evaluation.subject import open_subject

    if len(set(options.models)) < len(options.models):
        raise EvaluationError(f"models must be different, got {' '.join(options.models)}")
    subjects = [open_subject(path, step=options.step, rope_base=options.rope_base) for path in options.models]
    base = "" if options.rope_base is None else f", RoPE base {options.rope_base:,g}"
    names = [subject.name + base for subject in subjects]
    if len(set(names)) < len(names):
        names = list(options.models)
    return dict(zip(names, subjects, strict=True))


def check_outputs(outputs: dict[str, str | None], inputs: Sequence[str]) -> None:
    """Refuse files that cannot be written, are what is read, or are the same, before anything is done.

    Args:
        outputs: Path by option.
        inputs: What is read.
    """
    from tokenizer.output import check_output_file, resolve

    given = {option: Path(output) for option, output in outputs.items() if output is not None}
    for option, output in given.items():
        check_output_file(output, inputs, name=option)
    if len({resolve(output) for output in given.values()}) < len(given):
        raise EvaluationError(
            f"{' and '.join(given)} must be different files, got {' '.join(map(str, given.values()))}"
        )


def write_json(path: str, content: object) -> None:
    """Write a JSON file whole or not at all."""
    import json

    from tokenizer.output import write_file

    write_file(Path(path), (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())
