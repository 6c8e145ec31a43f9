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
    place: str = ""
    """FILE:LINE; "" where it is of no file."""


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
    fields = _parse_object(line, place)
    context, choices, answer = (fields.get(key) for key in ("context", "choices", "answer"))
    if not isinstance(context, str):
        _refuse(place, "context", "a text", context, '"" where there is none')
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(one, str) and one for one in choices):
        _refuse(place, "choices", "a list of two texts or more that are not empty", choices, '[" 2", " 3"]')
    if isinstance(answer, str) and choices.count(answer) > 1:
        _refuse(place, "answer", "the number of a choice where several have its text", answer, "0 for the first")
    if isinstance(answer, str) and answer in choices:
        answer = choices.index(answer)
    if not isinstance(answer, int) or isinstance(answer, bool) or not 0 <= answer < len(choices):
        _refuse(place, "answer", "the number of a choice, from 0, or its text", answer, "0 for the first")
    return Item(context, tuple(choices), answer, fields, place)


def _parse_object(line: bytes, place: str) -> dict[str, Any]:
    """The object of a line, all of whose text can be written as UTF-8 again."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise EvaluationError(
            f"{place}: line must be UTF-8, got byte 0x{line[error.start]:02x} at {error.start}; write JSON lines as "
            "UTF-8, not compressed"
        ) from None
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        _refuse(place, "item", "a JSON object", text[:40], '{"context": "1 + 1 =", ...}')
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise EvaluationError(
            f"{place}: item must be Unicode text, got half of a surrogate pair, {half}; write \\ufffd in its place"
        ) from None
    return fields


def _refuse(place: str, key: str, expected: str, got: object, example: str) -> NoReturn:
    shown = json.dumps(got, ensure_ascii=False)
    shown = shown if len(shown) < 60 else shown[:57] + "..."
    raise EvaluationError(f"{place}: {key} must be {expected}, got {shown}; write {example}")
