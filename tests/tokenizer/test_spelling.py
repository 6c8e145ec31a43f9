import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.measures.spelling import read_token, show_text, show_token

# U+2423 stands for the space, so tokens that hold it are the one exception.
TOKENS = (st.binary(max_size=12) | st.text(max_size=6).map(str.encode)).filter(lambda token: "␣".encode() not in token)


@given(TOKENS)
def test_a_token_is_read_back_as_it_is_shown(token):
    assert read_token(show_token(token)) == token


@given(TOKENS | st.text(max_size=8))
def test_what_is_shown_can_be_seen(content):
    shown = show_token(content) if isinstance(content, bytes) else show_text(content)
    assert shown.isprintable() and shown.encode().decode() == shown


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (b" a\\n\n", "␣a\\\\n\\n"),
        (b"\xc2\x85", "\\u0085"),
        (b"\x85", "\\x85"),
        ("東".encode()[:2], "\\xe6\\x9d"),
        ("東".encode(), "東"),
        ("\U000e0001".encode(), "\\U000e0001"),
    ],
)
def test_bytes_and_characters_are_told_apart(token, shown):
    assert show_token(token) == shown


def test_plain_text_reads_as_itself():
    assert read_token(" a\nb") == b" a\nb" and read_token("\\q") == b"\\q"
