import dataclasses
from typing import Literal

import pytest

from tokenizer.option_types import OptionTypeError, convert, convert_words, describe, option_types


@pytest.mark.parametrize(
    ("raw", "hint", "value"),
    [
        ("3", int, 3),
        ("1e6", int, 1_000_000),
        ("65_536", int, 65_536),
        ("-2", int, -2),
        ("1e-3", float, 1e-3),
        ("3", float, 3.0),
        ("true", bool, True),
        ("False", bool, False),
        ("no", str, "no"),
        ("1e-3", str, "1e-3"),
        ("null", str | None, None),
        ("~", int | None, None),
        ("None", int | None, None),
        ("7", int | None, 7),
        ("a,b", tuple[str, ...], ("a,b",)),
        (["a", "b"], tuple[str, ...], ("a", "b")),
        ([], tuple[str, ...], ()),
        ({"64": "1e6"}, dict[int, int], {64: 1_000_000}),
        ("natural", str | dict[int, int], "natural"),
        ({"64": "8"}, str | dict[int, int], {64: 8}),
        ("uniform", str | tuple[float, ...], ("uniform", "is text")[0]),
        (["1", "2.5"], str | tuple[float, ...], (1.0, 2.5)),
        ("b", Literal["a", "b"], "b"),
    ],
)
def test_text_becomes_a_value_of_the_settings_type(raw, hint, value):
    converted = convert(raw, hint)
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("raw", "hint", "words"),
    [
        ("three", int, "a whole number"),
        ("1.5", int, "a whole number"),
        ("nan", float, "a number"),
        ("inf", float, "a number"),
        ("yes", bool, "true or false"),
        ("1", bool, "true or false"),
        ("c", Literal["a", "b"], "one of a, b"),
        (["1"], int, "a whole number"),
        ({"a": "1"}, tuple[int, ...], "a list, each item a whole number"),
        ({"a": "1"}, str, "text"),
        (["1", "x"], tuple[int, ...], "a whole number"),
        ("x", int | None, "a whole number"),
    ],
)
def test_wrong_text_is_refused_in_words(raw, hint, words):
    with pytest.raises(OptionTypeError, match=words):
        convert(raw, hint)


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("py,rs", tuple[str, ...], ("py", "rs")),
        ("py, rs", tuple[str, ...], ("py", "rs")),
        ("py", tuple[str, ...], ("py",)),
        ("none", tuple[str, ...], ()),
        ("", tuple[str, ...], ()),
        ("1,2.5", str | tuple[float, ...], (1.0, 2.5)),
        ("grow-p2", str | tuple[float, ...], "grow-p2"),
        ("64:1e6, 128:2", str | dict[int, int], {64: 1_000_000, 128: 2}),
        ("natural", str | dict[int, int], "natural"),
        (r"\w+, x:\d", str, r"\w+, x:\d"),
        ("none", int | None, None),
    ],
)
def test_words_of_a_command_line_hold_lists_and_maps_between_commas(text, hint, value):
    assert convert_words(text, hint) == value


@pytest.mark.parametrize(
    ("text", "hint", "words"),
    [
        ("py,,rs", tuple[str, ...], "none of them empty"),
        ("1,x", str | tuple[float, ...], "text or a list, each item a number"),
        ("64:1,64:2", dict[int, int], "names each key once"),
        ("64:x", str | dict[int, int], "a map from a whole number to a whole number"),
        ("64", dict[int, int], "a map from a whole number to a whole number"),
    ],
)
def test_wrong_words_of_a_command_line_are_refused(text, hint, words):
    with pytest.raises(OptionTypeError, match=words):
        convert_words(text, hint)


def test_nested_dataclasses_are_walked_into_dotted_keys():
    @dataclasses.dataclass
    class Inner:
        size: int = 1

    @dataclasses.dataclass
    class Outer:
        inner: Inner
        name: str | None = None

    Outer.__annotations__["inner"] = Inner
    assert option_types(Outer) == {"inner.size": int, "name": str | None}


def test_every_type_can_be_described():
    assert describe(int | None) == "a whole number or null"
    assert describe(dict[int, float]) == "a map from a whole number to a number"
