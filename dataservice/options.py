"""Command-line options of the frozen dataclasses that hold settings: one option a field, with its doc and default."""

import argparse
import ast
import inspect
import textwrap
from collections.abc import Callable, Collection
from dataclasses import fields
from itertools import pairwise
from types import NoneType
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

__all__ = ["OptionParser", "add_options", "take_options"]

Settings = TypeVar("Settings")


class OptionParser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Prints the line and exits with status 2."""
        self.exit(2, f"error: {message}; {self.prog} --help lists the options\n")


def add_options(parser: argparse.ArgumentParser, settings: type, *, without: Collection[str] = ()) -> None:
    """Adds an option for each field of a dataclass: `min_length: int = 64` becomes `--min-length`."""
    docs, kinds = field_docs(settings), get_type_hints(settings)
    for field in fields(settings):
        if field.name in without:
            continue
        kind = kinds[field.name]
        help_text = f"{docs.get(field.name, '')} (default: {show_default(field.default)})"
        parser.add_argument(
            "--" + field.name.replace("_", "-"),
            default=argparse.SUPPRESS,
            choices=get_args(kind) if get_origin(kind) is Literal else None,
            type=value_parser(kind),
            metavar=None if get_origin(kind) is Literal else "VALUE",
            help=help_text.replace("%", "%%"),
        )


def take_options(arguments: argparse.Namespace, settings: type[Settings], **others: Any) -> Settings:
    """Builds the dataclass from the options that were given; `others` are fields that are no options."""
    names = {field.name for field in fields(settings)}  # pyright: ignore[reportArgumentType]
    return settings(**{name: value for name, value in vars(arguments).items() if name in names}, **others)


def field_docs(settings: type) -> dict[str, str]:
    """The string below each field of a dataclass."""
    body = ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0].body  # pyright: ignore
    docs = {}
    for statement, following in pairwise(body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                docs[name] = " ".join(doc.split())
    return docs


def show_default(default: Any) -> str:
    """A default as one would type it."""
    if isinstance(default, tuple):
        return ",".join(map(str, default)) or "none"
    return "none" if default is None else str(default)


def value_parser(kind: Any) -> Callable[[str], Any]:
    """What reads a value of a field's type from the command line."""
    kinds = set(get_args(kind) or (kind,)) - {NoneType}
    if kind == tuple[str, ...]:
        return parse_names
    if kinds == {int}:
        return int
    if kinds == {float}:
        return float
    return parse_structure if any(get_origin(k) in (dict, tuple) for k in kinds) else str


def parse_names(text: str) -> tuple[str, ...]:
    """Names between commas.

    >>> parse_names("py,rs")
    ('py', 'rs')
    """
    return tuple(name for name in text.split(",") if name)


def parse_structure(text: str) -> Any:
    """A name, a list of numbers, or a map of numbers.

    >>> parse_structure("natural"), parse_structure("3,2,1"), parse_structure("64:1000,128:2000")
    ('natural', (3.0, 2.0, 1.0), {64: 1000, 128: 2000})
    """
    try:
        if ":" in text:
            return {int(key): int(value) for key, value in (pair.split(":") for pair in text.split(","))}
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        return text
