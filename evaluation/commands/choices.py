"""``choices``: multiple choice by log-probability."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.commands.models import add_models, check_outputs, open_models, write_json
from tokenizer.options import OptionParser, add_option

if TYPE_CHECKING:
    from evaluation.choice_items import Item
    from evaluation.choices import ItemScores
    from evaluation.choices_report import Answers

__all__ = ["add", "run"]


def add(parser: OptionParser) -> None:
    """Add the command."""
    doc = "Multiple choice: the choice whose tokens have the highest mean log-probability after a context."
    command = parser.add_command("choices", run, "MODEL... --on FILE.jsonl", doc)
    add_models(command)
    file = (
        'JSON lines: {"context": TEXT, "choices": [TEXT, TEXT, ...], "answer": number from 0 or text}; other keys are '
        "kept, too."
    )
    add_option(command, "--on", str, file, metavar="FILE.jsonl")
    between = "Text between context and choice, scored with the choice."
    add_option(command, "--between", str, between, default="")
    longest = "Most tokens of a sequence, <eod> too; longer contexts are cut from the left; null: as trained on."
    add_option(command, "--max-length", int | None, longest, default=None, least=1)
    items = (
        "Write a JSON line for each item and model: model, item (all keys of its line), log_probs, tokens, bytes, cut, "
        "predictions."
    )
    command.add_argument("--output", metavar="FILE.jsonl", help=items)
    command.add_argument("--json", metavar="FILE", help="Write the accuracies as JSON, too.")


def run(arguments: argparse.Namespace) -> int:
    """Print accuracies and write what was asked for."""
    outputs = {"--output": arguments.output, "--json": arguments.json}
    check_outputs(outputs, [arguments.on])
    from evaluation.boundaries import find_begin
    from evaluation.choice_items import read_items
    from evaluation.choices import score_choices
    from evaluation.choices_report import Answers, make_tables, to_json
    from tokenizer.measures.table import to_markdown
    from tokenizer.progress import show_progress
    from training.devices import use_compilation_cache

    items = read_items(Path(arguments.on))
    use_compilation_cache()
    subjects = open_models(arguments)
    begins = {name: find_begin(one, arguments.begin) for name, one in subjects.items()}
    answers: dict[str, Answers] = {}
    with show_progress() as progress:
        for name, subject in subjects.items():
            scores = score_choices(
                subject,
                items,
                begins[name],
                between=arguments.between,
                max_length=arguments.max_length,
                progress=lambda done, total, name=name: progress(f"score tokens by {name}", done, total),
            )
            answers[name] = Answers.of(items, scores)
    _write(arguments, items, answers, to_json(answers))
    print("\n".join(map(to_markdown, make_tables(answers))), end="")
    for output in outputs.values():
        if output is not None:
            print(f"wrote {output}", file=sys.stderr)
    return 0


def _write(arguments: argparse.Namespace, items: list["Item"], answers: dict[str, "Answers"], content: Any) -> None:
    """Before anything is printed, as whoever reads that may leave."""
    if arguments.json is not None:
        write_json(arguments.json, content)
    if arguments.output is not None:
        from tokenizer.output import write_file

        lines = [
            json.dumps({"model": name, "item": item.fields, **_item_json(scores)}, ensure_ascii=False) + "\n"
            for name, one in answers.items()
            for item, scores in zip(items, one.scores, strict=True)
        ]
        write_file(Path(arguments.output), "".join(lines).encode())


def _item_json(scores: "ItemScores") -> dict[str, Any]:
    from evaluation.choices import RULES

    return {
        "log_probs": scores.totals.tolist(),
        "tokens": scores.num_tokens.tolist(),
        "bytes": scores.num_bytes.tolist(),
        "cut": scores.cut,
        "predictions": {rule: int(scores.by(rule).argmax()) for rule in RULES},
    }
