import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.measures.differences import count_differences
from tokenizer.measures.inequality import gini
from tokenizer.measures.names import count_name_parts, split_name
from tokenizer.measures.numbers import count_three_digit_numbers

POSITIVE = st.floats(0.01, 100)
LETTERS = "abcXYZ_19é中 .ßÅ"


@given(st.lists(POSITIVE, min_size=2, max_size=12))
def test_gini_is_the_double_sum_of_its_definition(values):
    mean = sum(values) / len(values)
    total = sum(abs(x - y) for x, y in itertools.product(values, values))
    assert gini(values) == pytest.approx(total / (2 * len(values) ** 2 * mean), abs=1e-12)


@given(st.lists(POSITIVE, min_size=2, max_size=12), POSITIVE, st.randoms())
def test_gini_depends_on_neither_order_nor_unit_and_is_0_for_equals(values, unit, random):
    others = [value * unit for value in values]
    random.shuffle(others)
    assert gini(others) == pytest.approx(gini(values), abs=1e-9)
    assert gini([unit] * len(values)) == pytest.approx(0, abs=1e-12)
    assert gini(values) == pytest.approx(0.5, abs=0.5 + 1e-12)


def test_gini_of_one_who_has_everything_and_of_fewer_than_two():
    assert gini([0.0, 0.0, 0.0, 8.0]) == 0.75
    assert gini([5.0]) is None and gini([]) is None


NAMES = {
    "getHTTPStatus": ["get", "HTTP", "Status"],
    "HTTPStatus": ["HTTP", "Status"],
    "HTTP": ["HTTP"],
    "_private_name": ["private", "name"],
    "MAX_VALUE": ["MAX", "VALUE"],
    "__init__": ["init"],
    " camelCase": ["camel", "Case"],
    "aB": ["a", "B"],
    "A": ["A"],
    "utf8": ["utf8"],
    "HTTP2Server": ["HTTP2", "Server"],
    "x1y2": ["x1", "y2"],
    "naïveÅngström": ["naïve", "Ångström"],
    "变量": ["变量"],
    "e\u0301t\u00e9": ["e\u0301t\u00e9"],
    "100": [],
    " == ": [],
    "": [],
}


@pytest.mark.parametrize(("name", "parts"), NAMES.items(), ids=[ascii(name) for name in NAMES])
def test_names_split_at_underscores_and_capitals_with_abbreviations_whole(name, parts):
    assert split_name(name) == parts
    assert count_name_parts([name.encode()]) == [len(parts)]


def split_naively(name):
    """Cut before a capital that follows a small letter or a digit, or that a small letter follows."""
    parts, part = [], ""
    for index, letter in enumerate(name):
        before, after = name[index - 1 : index], name[index + 1 : index + 2]
        if letter.isdigit():
            part += letter if part else ""
            continue
        is_cut = letter.isupper() and (not before.isupper() or after.islower())
        if not letter.isalpha() or is_cut or before.isdigit():
            parts.append(part)
            part = ""
        part += letter if letter.isalpha() else ""
    return [part for part in [*parts, part] if part]


@given(st.text(LETTERS.replace("中", ""), max_size=12))
def test_names_split_as_letter_by_letter(name):
    assert split_name(name) == split_naively(name)


def test_parts_are_counted_in_whole_characters_only():
    assert count_name_parts([b"\xe4\xb8", "中".encode(), b"\xffab", b"a\xffb"]) == [0, 1, 1, 2]


def test_three_digit_numbers_are_100_to_999_bare():
    tokens = [b"100", b"999", b"555", b"099", b"1000", b" 100", b"10", b"12a", "１００".encode(), b"100"]
    assert count_three_digit_numbers(tokens) == 3
    assert count_three_digit_numbers(str(number).encode() for number in range(10_000)) == 900


@given(st.lists(st.sets(st.binary(max_size=1)), min_size=1, max_size=4))
def test_differences_are_counted_token_by_token(vocabularies):
    counts = count_differences([sorted(vocabulary) * 2 for vocabulary in vocabularies])
    for (a, rows), (b, columns) in itertools.product(enumerate(vocabularies), repeat=2):
        assert counts[a][b] == sum(token not in columns for token in rows)
