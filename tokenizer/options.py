"""Command lines from the dataclasses that hold settings: an option a field, with its doc, type and default."""

import argparse
import ast
import difflib
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import pairwise, takewhile
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from tokenizer.interrupts import EXIT_INTERRUPTED, interruptible
from tokenizer.option_types import OptionTypeError, convert_words, members

__all__ = [
    "OptionParser",
    "add_option",
    "add_options",
    "discard_unwritten",
    "field_docs",
    "run_command",
    "take_options",
]

Settings = TypeVar("Settings")

EXIT_BAD_INPUT = 2
MOST_ITEMS_SHOWN = 8

_METAVARS = {int: "N", float: "X", str: "TEXT", bool: "true|false"}
_LIST_SYNTAX = "Items between commas; none: an empty list."
# What argparse says, and what we say instead.
_REWORDED = (
    (r"the following arguments are required: (.*)", r"\1 must be given, got nothing"),
    (r"argument (.*): expected one argument", r"\1 must be followed by a value, got nothing"),
    (r"argument (.*): invalid choice: (.*) \(choose from (.*)\)", r"\1 must be one of \3, got \2"),
)


class OptionParser(argparse.ArgumentParser):
    """A parser whose complaints are one line, and which names the option that was meant."""

    def __init__(self, *, passes_on: bool = False, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._commands: Any = None
        self._passes_on = passes_on

    def add_command(
        self,
        name: str,
        run: Callable[[argparse.Namespace], int],
        usage: str,
        doc: str,
        *,
        passes_on: bool = False,
    ) -> "OptionParser":
        """Add a command whose `run(options)` returns its exit code; `usage` is what must follow its name.

        One that passes on has all that follows, as it is, in `options.words`, for a parser that is not ours.
        """
        if self._commands is None:
            self._commands = self.add_subparsers(required=True, metavar="COMMAND")
        usage = f"{self.prog} {name} {usage} [OPTION ...]"
        command = self._commands.add_parser(name, help=doc, description=doc, usage=usage, passes_on=passes_on)
        command.set_defaults(run=run, parser=command)
        return command

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with status 2."""
        for theirs, ours in _REWORDED:
            message = re.sub(theirs, ours, message)
        hint = "" if ";" in message else f"; see {self.prog} --help"
        self.exit(EXIT_BAD_INPUT, f"error: {message}{hint}\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse what is not known: a misspelt option before the required one that it leaves missing."""
        words = list(sys.argv[1:] if args is None else args)
        if self._passes_on:
            return argparse.Namespace(**self._defaults, words=words), []
        own_words = words if self._commands is None else takewhile(lambda word: word.startswith("-"), words)
        self._refuse_unknown(list(own_words))
        namespace, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self._refuse_unknown(unknown)
            self.error(f"argument must be an option or its value, got {unknown[0]!r}; a list is written a,b")
        return namespace, unknown

    def name_options(self, message: str) -> str:
        """Spell the settings in a message as this parser's options: `data.seed must ...` as `--seed must ...`.

        Other options than settings are spelled so at the beginning alone: `tokenizer.json` is a file.
        """
        options = [action for action in self._actions if action.option_strings]
        names = {action.dest: action.option_strings[-1] for action in options}
        settings = {action.dest for action in options if isinstance(action, _TypedOption)}
        places = {action.dest: action.metavar for action in self._actions if not action.option_strings}

        def name_option(match: re.Match[str]) -> str:
            prefix, name, equals = match.groups()
            if name in settings or (name in names and not prefix):
                return names[name] + (equals and " ")
            return str(places[name]) if prefix and name in places else match[0]

        return re.sub(r"(?:\b(corpus|data|tokenizer)\.|^)(\w+)(=?)", name_option, message)

    def _refuse_unknown(self, words: list[str]) -> None:
        known = {flag.lstrip("-"): flag for flag in self._option_string_actions}
        for word in words[: words.index("--")] if "--" in words else words:
            flag = word.partition("=")[0]
            if flag.startswith("--") and " " not in word and flag not in known.values():
                best = difflib.get_close_matches(flag.lstrip("-"), list(known), n=1)
                hint = f"did you mean {known[best[0]]}?" if best else f"see {self.prog} --help"
                self.error(f"option must be one that there is, got {flag}; {hint}")


def run_command(
    parser: OptionParser, arguments: Sequence[str] | None, *, errors: tuple[type[Exception], ...], interrupted: str
) -> int:
    """Parse a command line and run its command.

    Returns:
        The exit code: that of the command, 2 after one line about bad input (`errors`) or about what the system does
        not let us do with files and streams, 130 after Ctrl-C.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 (or print would send errors to standard output)
    if sys.stdout is None:
        return _fail("standard output must be open, got a closed one; >/dev/null leaves out what is said")
    try:
        with interruptible(interrupted):
            return _run(parser, arguments, errors)
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has left
        return 0
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename is None:
            return _fail(f"output must be writable, got {reason}; make room, or write elsewhere")
        return _fail(f"file must be one that the system can use, got {reason}: {error.filename}")
    finally:
        discard_unwritten()


def _run(parser: OptionParser, arguments: Sequence[str] | None, errors: tuple[type[Exception], ...]) -> int:
    try:
        options = parser.parse_args(arguments)
    finally:
        sys.stdout.flush()  # of --help, while a fault is still reported in one line
    try:
        code = options.run(options)
        sys.stdout.flush()
    except errors as error:
        return _fail(options.parser.name_options(str(error)))
    return code


def _fail(message: str) -> int:
    with suppress(OSError):
        print(f"error: {message}", file=sys.stderr)
    return EXIT_BAD_INPUT


def discard_unwritten() -> None:
    """Drop what the standard streams do not take: Python would complain of it when it flushes at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def add_options(parser: OptionParser, settings: type, *, title: str, without: Collection[str] = ()) -> None:
    """Add an option for each field of a dataclass under a title: `min_length: int = 64` becomes `--min-length N`."""
    group = parser.add_argument_group(title)
    docs, hints = field_docs(settings), get_type_hints(settings)
    for field in fields(settings):
        if field.name not in without:
            flag = "--" + field.name.replace("_", "-")
            add_option(group, flag, hints[field.name], docs[field.name], default=field.default)


def add_option(
    container: Any,
    flag: str,
    hint: Any,
    doc: str,
    *,
    default: Any = argparse.SUPPRESS,
    metavar: str | None = None,
    least: int | None = None,
) -> None:
    """Add one option whose value is of the type `hint`; without a default it must be given.

    Args:
        container: A parser or a group of its options.
        least: The smallest number that it takes.
    """
    required = default is argparse.SUPPRESS
    parts = [doc] if get_origin(hint) is not tuple else [doc, _LIST_SYNTAX]
    if not required:
        parts[0], shown = split_default(doc, default)
        parts.append(f"Default: {shown}.")
    container.add_argument(
        flag,
        action=_TypedOption,
        hint=hint,
        least=least,
        default=default,
        required=required,
        metavar=metavar or describe_syntax(hint),
        help=" ".join(parts).replace("%", "%%"),
    )


def take_options(options: argparse.Namespace, settings: type[Settings], **others: Any) -> Settings:
    """Build the dataclass from its options; `others` are fields that are no options."""
    names = {field.name for field in fields(settings)}  # pyright: ignore[reportArgumentType]
    return settings(**{name: value for name, value in vars(options).items() if name in names} | others)


def field_docs(settings: type) -> dict[str, str]:
    """The string below each field of a dataclass, on one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0].body  # pyright: ignore
    docs = {}
    for statement, following in pairwise(body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                docs[name] = " ".join(doc.split())
    return docs


def split_default(doc: str, default: Any) -> tuple[str, str]:
    """A doc, and its default in words: those with which the doc ends, when they say what null or empty means.

    >>> split_default("Longest token in bytes; null: no limit.", None)
    ('Longest token in bytes.', 'no limit')
    >>> split_default("Shortest row.", 64), split_default("Names.", ("a", "b"))
    (('Shortest row.', '64'), ('Names.', 'a,b'))
    """
    if default is None or default in ((), ""):
        said = re.fullmatch(rf"(.*); {'null' if default is None else 'empty'}: (.*)\.", doc)
        return (f"{said[1]}.", said[2]) if said else (doc, "none")
    if not isinstance(default, tuple):
        return doc, str(default)
    shown = ",".join(map(str, default[:MOST_ITEMS_SHOWN]))
    return doc, shown if len(default) <= MOST_ITEMS_SHOWN else f"{shown},... ({len(default)} in all)"


def describe_syntax(hint: Any) -> str:
    """How values of a type are written.

    >>> describe_syntax(int | None), describe_syntax(str | dict[int, int]), describe_syntax(tuple[str, ...])
    ('N', 'TEXT|N:N,...', 'TEXT,...')
    """
    kinds = []
    for kind in members(hint):
        if get_origin(kind) is Literal:
            kinds.append("|".join(map(str, get_args(kind))))
        elif get_origin(kind) is dict:
            kinds.append(":".join(map(describe_syntax, get_args(kind))) + ",...")
        elif get_origin(kind) is tuple:
            kinds.append(describe_syntax(get_args(kind)[0]) + ",...")
        else:
            kinds.append(_METAVARS[kind])
    return "|".join(kinds)


class _TypedOption(argparse.Action):
    """Converts the text of an option by its type; a fault is the parser's one line."""

    def __init__(self, *arguments: Any, hint: Any, least: int | None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.hint, self.least = hint, least

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        try:
            value = convert_words(values, self.hint)
        except OptionTypeError as error:
            parser.error(f"{option_string} must be {error}, got {values!r}")
        if self.least is not None and value < self.least:
            parser.error(f"{option_string} must be at least {self.least}, got {value}")
        setattr(namespace, self.dest, value)
