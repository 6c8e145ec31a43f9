"""How tokens and other strangers' text are shown: on one line, with nothing invisible in it."""

import re

__all__ = ["read_token", "show_count", "show_text", "show_token"]

SPACE = "␣"
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", " ": SPACE}
_BY_ESCAPE = {escape: character for character, escape in _ESCAPES.items()}
_HEX = "[0-9a-fA-F]"
_CODE = rf"\\x{_HEX}{{2}}|\\u{_HEX}{{4}}|\\U00(?:0{_HEX}|10){_HEX}{{4}}"
_ESCAPED = re.compile(rf"{_CODE}|\\[nrt\\]|{SPACE}")


def show_count(count: int, noun: str, nouns: str | None = None) -> str:
    """A number of things, in words; `nouns` is the plural where that is not the noun with an s.

    >>> show_count(1, "token"), show_count(2000, "token"), show_count(0, "repository", "repositories")
    ('1 token', '2,000 tokens', '0 repositories')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def show_token(token: bytes) -> str:
    r"""Spell the bytes of a token: \x.. is a byte, \u.... a character that cannot be seen, ␣ the space.

    No two tokens look the same, but for those that hold U+2423 itself.

    >>> show_token(b" a\n\xe6\x9d"), show_token("é\u200b".encode())
    ('␣a\\n\\xe6\\x9d', 'é\\u200b')
    """
    # surrogateescape turns byte b that is no UTF-8 into U+DC00 + b
    characters = token.decode(errors="surrogateescape")
    return "".join(_ESCAPES.get(character) or _show_character(character) for character in characters)


def read_token(spelled: str) -> bytes:
    r"""Return the bytes that `show_token` spells so; plain spaces and line ends may stand for themselves.

    >>> read_token("␣a b\\n\\xe6\\x9d")
    b' a b\n\xe6\x9d'
    """
    parts, end = [], 0
    for match in _ESCAPED.finditer(spelled):
        parts += [spelled[end : match.start()].encode(errors="surrogateescape"), _read_escape(match[0])]
        end = match.end()
    return b"".join([*parts, spelled[end:].encode(errors="surrogateescape")])


def show_text(text: str) -> str:
    r"""Spell what cannot be printed (control characters, lone surrogates); spaces and everything else stay.

    >>> show_text("a b\0")
    'a b\\x00'
    """
    return "".join(_show_character(character) for character in text)


def _show_character(character: str) -> str:
    code = ord(character)
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _read_escape(escape: str) -> bytes:
    if escape in _BY_ESCAPE:
        return _BY_ESCAPE[escape].encode()
    code = int(escape[2:], 16)
    return bytes([code]) if escape[1] == "x" else chr(code).encode(errors="surrogatepass")
