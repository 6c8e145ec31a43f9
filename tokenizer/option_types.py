"""Settings from text: one checker for YAML files and command lines, driven by the types of the config dataclasses.

Every scalar arrives as the text that the user wrote, so `1e-3` is a float where a float is wanted and a string where a
string is wanted, and YAML's own guesses (`no` is false, `1_0` is 10, `1e-3` is a string) never come into play.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any

__all__ = ["OptionTypeError", "Raw", "convert", "convert_words", "describe", "members", "option_types"]

Raw = str | list["Raw"] | dict[str, "Raw"]

NULLS = ("null", "~", "none", "")
BOOLEANS = {"true": True, "false": False}


class OptionTypeError(ValueError):
    """A value does not fit the type of its setting; the message says what was expected."""


def option_types(config_class: type, prefix: str = "") -> dict[str, Any]:
    """Walk nested config dataclasses into {dotted key: type}.

    >>> @dataclasses.dataclass
    ... class Inner: size: int = 1
    >>> @dataclasses.dataclass
    ... class Outer: inner: Inner; name: str = "x"
    >>> option_types(Outer)
    {'inner.size': <class 'int'>, 'name': <class 'str'>}
    """
    hints = typing.get_type_hints(config_class)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(config_class):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            found |= option_types(hint, f"{prefix}{field.name}.")
        else:
            found[prefix + field.name] = hint
    return found


def convert(raw: Raw, hint: Any) -> Any:
    """Turn text (or lists and maps of text) into a value of the type `hint`.

    Raises:
        OptionTypeError: the text does not spell such a value.

    >>> convert("1e6", int), convert("null", int | None), convert(["1", "2"], tuple[int, ...])
    (1000000, None, (1, 2))
    """
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _convert_union(raw, typing.get_args(hint))
    if origin is typing.Literal:
        return _convert_literal(raw, typing.get_args(hint))
    if origin in (tuple, list):
        return _convert_sequence(raw, typing.get_args(hint)[0], origin)
    if origin is dict:
        return _convert_map(raw, *typing.get_args(hint))
    if isinstance(raw, (list, dict)):
        raise OptionTypeError(describe(hint))
    return _SCALARS[hint](raw)


def convert_words(text: str, hint: Any) -> Any:
    """Turn one word of a command line into a value: lists are written `a,b` and maps `64:1000,128:2000`.

    Raises:
        OptionTypeError: the text does not spell such a value.

    >>> convert_words("a,b", tuple[str, ...]), convert_words("none", tuple[str, ...])
    (('a', 'b'), ())
    >>> convert_words("natural", str | dict[int, int]), convert_words("64:1e6", str | dict[int, int])
    ('natural', {64: 1000000})
    """
    origins = {typing.get_origin(member) for member in members(hint)}
    if dict in origins and ":" in text:
        pairs = [pair.partition(":")[::2] for pair in text.split(",")]
        values: dict[str, Raw] = {key.strip(): value.strip() for key, value in pairs}
        if len(values) < len(pairs):
            raise OptionTypeError("a map that names each key once")
        return convert(values, hint)
    if origins == {tuple} or (tuple in origins and "," in text):
        items: list[Raw] = [] if text.strip().lower() in ("none", "") else [item.strip() for item in text.split(",")]
        if "" in items:
            raise OptionTypeError("items between commas, none of them empty")
        return convert(items, hint)
    return convert(text, hint)


def members(hint: Any) -> tuple[Any, ...]:
    """The types of a union but for None; of any other type itself alone.

    >>> members(int | None), members(str)
    ((<class 'int'>,), (<class 'str'>,))
    """
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return tuple(part for part in (typing.get_args(hint) if is_union else (hint,)) if part is not type(None))


def describe(hint: Any) -> str:
    """Say in words which values a type takes: `a whole number`, `one of a, b`, `a list of ...`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(part) for part in arguments)
    if origin is typing.Literal:
        return "one of " + ", ".join(str(value) for value in arguments)
    if origin in (tuple, list):
        return f"a list, each item {describe(arguments[0])}"
    if origin is dict:
        return f"a map from {describe(arguments[0])} to {describe(arguments[1])}"
    return _WORDS[hint]


def _convert_union(raw: Raw, hints: tuple[Any, ...]) -> Any:
    if type(None) in hints and isinstance(raw, str) and raw.strip().lower() in NULLS:
        return None
    # Text fits any string type, so it is tried last.
    for hint in sorted((hint for hint in hints if hint is not type(None)), key=lambda hint: hint is str):
        try:
            return convert(raw, hint)
        except OptionTypeError:
            continue
    raise OptionTypeError(" or ".join(describe(hint) for hint in hints))


def _convert_literal(raw: Raw, values: tuple[Any, ...]) -> Any:
    for value in values:
        if isinstance(raw, str) and raw.strip() == str(value):
            return value
    raise OptionTypeError(describe(typing.Literal[values]))


def _convert_sequence(raw: Raw, item: Any, kind: type) -> Any:
    if isinstance(raw, dict):
        raise OptionTypeError(describe(tuple[item, ...]))
    items = [raw] if isinstance(raw, str) else raw
    return kind(convert(part, item) for part in items)


def _convert_map(raw: Raw, key: Any, value: Any) -> dict[Any, Any]:
    if not isinstance(raw, dict):
        raise OptionTypeError(describe(dict[key, value]))
    return {convert(k, key): convert(v, value) for k, v in raw.items()}


def _convert_int(raw: str) -> int:
    text = raw.strip().replace("_", "")
    try:
        return int(text)
    except ValueError:
        number = _convert_float(raw, int)
    if not number.is_integer():
        raise OptionTypeError(describe(int))
    return int(number)


def _convert_float(raw: str, hint: type = float) -> float:
    try:
        number = float(raw)
    except ValueError:
        raise OptionTypeError(describe(hint)) from None
    if number != number or number in (float("inf"), float("-inf")):
        raise OptionTypeError(describe(hint))
    return number


def _convert_bool(raw: str) -> bool:
    try:
        return BOOLEANS[raw.strip().lower()]
    except KeyError:
        raise OptionTypeError(describe(bool)) from None


_SCALARS: dict[Any, Callable[[str], Any]] = {int: _convert_int, float: _convert_float, bool: _convert_bool, str: str}
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
