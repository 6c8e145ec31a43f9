"""How tokens and other strangers' text are shown: on one line, with nothing invisible in it."""

__all__ = ["show_text", "show_token"]

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", " ": "␣"}


def show_token(token: bytes) -> str:
    r"""Spell the bytes of a token, so that no two tokens look the same (but for those that hold U+2423).

    >>> show_token(b" a\n\xe6\x9d"), show_token("é\u200b".encode())
    ('␣a\\n\\xe6\\x9d', 'é\\u200b')
    """
    # surrogateescape turns byte b that is no UTF-8 into U+DC00 + b
    characters = token.decode(errors="surrogateescape")
    return "".join(_NAMED.get(character) or _show_character(character) for character in characters)


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
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    width, letter = (2, "x") if code < 0x100 else (4, "u") if code < 0x10000 else (8, "U")
    return f"\\{letter}{code:0{width}x}"
