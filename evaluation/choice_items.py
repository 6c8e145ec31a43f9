"""Items of multiple choice from a file of JSON lines."""

import json
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from evaluation.errors import EvaluationError

__all__ = ["Item", "read_items"]


class Item(NamedTuple):
    """A context, choices that may follow it, and the number of the right one."""

    context: str
    choices: tuple[str, ...]
    answer: int
    fields: dict[str, Any]
    """All that the line has, these too."""


def read_items(path: Path) -> list[Item]:
    """Read a file of JSON lines, each an object with "context", "choices" and "answer"; other keys are kept.

    Raises:
        EvaluationError: names the first line that is none, or the file where it has none at all.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise EvaluationError(f"file must be readable, got {error.strerror}: {path}; name one with --on") from None
    items = [_parse(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not items:
        raise EvaluationError(f"file must hold an item or more, got none in {path}; write one a line")
    return items


def _parse(line: bytes, place: str) -> Item:
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        _refuse(place, "item", "a JSON object", line[:40].decode(errors="replace"), '{"context": "1 + 1 =", ...}')
    context, choices, answer = (fields.get(key) for key in ("context", "choices", "answer"))
    if not isinstance(context, str):
        _refuse(place, "context", "a text", context, '"" where there is none')
    if not isinstance(choices, list) or not choices or not all(isinstance(one, str) and one for one in choices):
        _refuse(place, "choices", "a list of texts that are not empty", choices, '[" 2", " 3"]')
    if isinstance(answer, str) and choices.count(answer) == 1:
        answer = choices.index(answer)
    if not isinstance(answer, int) or isinstance(answer, bool) or not 0 <= answer < len(choices):
        _refuse(place, "answer", "the number of a choice, from 0, or its text", answer, "0 for the first")
    return Item(context, tuple(choices), answer, fields)


def _refuse(place: str, key: str, expected: str, got: object, example: str) -> NoReturn:
    shown = json.dumps(got, ensure_ascii=False)
    shown = shown if len(shown) < 60 else shown[:57] + "..."
    raise EvaluationError(f"{place}: {key} must be {expected}, got {shown}; write {example}")
