"""Command line of runs: `python -m training export | import | generate | show | plan`."""

import sys
from collections.abc import Sequence
from typing import get_args

from dataservice.errors import DataError
from model.errors import ModelError
from tokenizer.errors import TokenizerError
from tokenizer.options import OptionParser, add_option, run_command
from training.commands import run_export, run_import, run_plan, run_show
from training.errors import TrainingError
from training.generation import run_generate


def make_parser() -> OptionParser:
    """The parser of all commands."""
    from model.huggingface.folder import WeightType

    parser = OptionParser(prog="python -m training", description="Trained models: out, in, and at work.")
    export = parser.add_command("export", run_export, "RUN --output DIR", "Write a run for Hugging Face transformers.")
    generate = parser.add_command("generate", run_generate, "RUN --prompt TEXT", "Go on with texts.")
    for command in (export, generate):
        command.add_argument("run_folder", metavar="RUN", help="Folder of the run.")
        add_option(command, "--step", int | None, "Step of a checkpoint; the newest without it.", default=None, least=0)
    add_option(export, "--output", str, "Folder to write, new or empty.", metavar="DIR")
    add_option(
        export, "--dtype", WeightType, f"Type of the weights: {', '.join(get_args(WeightType))}.", default="float32"
    )

    importing = parser.add_command("import", run_import, "DIR --output RUN", "Make a run of a Hugging Face Llama.")
    importing.add_argument("folder", metavar="DIR", help="Folder with config.json, safetensors and tokenizer.json.")
    add_option(importing, "--output", str, "Folder of the run, new or empty.", metavar="RUN")
    names = "More special tokens, after the last id; their rows are the mean of all. Stores need <eod>."
    add_option(importing, "--special-tokens", tuple[str, ...], names, default=())

    _add_generation(generate)

    show = parser.add_command("show", run_show, "RUN --step T", "Print the text and source of a step's rows.")
    show.add_argument("run_folder", metavar="RUN", help="Folder of the run.")
    add_option(show, "--step", int, "Number of the step, from 1, as in metrics.jsonl.", metavar="T", least=1)
    add_option(show, "--rows", int, "First rows to print; 0: all.", default=0, metavar="N", least=0)

    plan = parser.add_command("plan", run_plan, "[CONFIG.yaml] [key=value ...]", "How a run would lie on devices.")
    plan.add_argument("settings", nargs="*", metavar="CONFIG.yaml", help="Settings, as for train.py.")
    add_option(plan, "--devices", int, "Devices that share the work; they need not be there.", default=1, least=1)
    add_option(plan, "--topology", str | None, "A TPU slice instead, such as v5e:2x4 (needs libtpu).", default=None)
    add_option(
        plan, "--device-memory", float | None, "Memory of a device in GiB: what is over is marked.", default=None
    )
    compiling = "Compile the steps too, for the slice or for virtual CPU devices, and print what the compiler says."
    plan.add_argument("--compile", action="store_true", help=compiling)
    return parser


def _add_generation(generate: OptionParser) -> None:
    """The options of `generate`."""
    prompts = "Text to go on with; given again, the next one. Of several the results are JSON lines."
    generate.add_argument("--prompt", action="append", default=[], metavar="TEXT", help=prompts)
    file = 'JSON lines, each a text or an object with "prompt"; null: none.'
    add_option(generate, "--prompts-file", str | None, file, default=None, metavar="FILE")
    add_option(generate, "--output", str | None, "File for the results; null: printed.", default=None, metavar="FILE")
    add_option(generate, "--batch-size", int, "Prompts that are gone on with at once.", default=16, least=1)
    add_option(generate, "--max-new-tokens", int, "Most tokens to draw.", default=128, least=0)
    add_option(generate, "--temperature", float, "0: the likeliest token; 1: as trained.", default=0.8)
    add_option(generate, "--top-k", int, "Draw among so many likeliest tokens; 0: all.", default=0, least=0)
    add_option(generate, "--top-p", float, "Draw among the likeliest whose probabilities reach this.", default=0.95)
    add_option(generate, "--seed", int, "Seed of the draws; the second prompt has the next one, and so on.", default=0)
    add_option(generate, "--begin", str, "Special token before the prompt.", default="<eod>")
    add_option(generate, "--stop", tuple[str, ...], "Special tokens that end the text.", default=("<eod>",))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 2 for bad input, said in one line."""
    return run_command(
        make_parser(),
        arguments,
        errors=(TrainingError, ModelError, TokenizerError, DataError),
        interrupted="interrupted",
    )


if __name__ == "__main__":
    sys.exit(main())
