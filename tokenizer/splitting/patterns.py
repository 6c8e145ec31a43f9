"""The named split patterns and their regular expressions."""

import logging
from functools import cache

import regex

from tokenizer.errors import TokenizerError

__all__ = ["PATTERNS", "compile_pattern", "resolve_pattern", "warn_of_engines"]

log = logging.getLogger(__name__)

# Written as their authors publish them, so that an exported tokenizer carries the very same text.
PATTERNS = {
    "none": "",
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt4": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "llama3": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "o200k": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}


def resolve_pattern(pattern: str) -> str:
    """Return the regular expression of a named pattern, or `pattern` itself when it is one; "" splits nothing.

    Raises TokenizerError when it is no name and no regular expression.
    """
    if not isinstance(pattern, str):
        raise TokenizerError(f"pattern must be text, got {pattern!r}; name one of {', '.join(PATTERNS)}")
    expression = PATTERNS.get(pattern, pattern)
    compile_pattern(expression)
    return expression


def warn_of_engines(pattern: str) -> None:
    """Log a warning about an expression of which it is not known that every engine reads it alike."""
    if PATTERNS.get(pattern, pattern) not in PATTERNS.values():
        log.warning(
            "pattern is none of %s, which split alike everywhere: other libraries read it with engines of their own, "
            "which may refuse it or split otherwise, got %r",
            ", ".join(PATTERNS),
            pattern,
        )


@cache
def compile_pattern(expression: str) -> regex.Pattern[str]:
    """Return the compiled expression; raises TokenizerError with the position of the fault."""
    try:
        expression.encode()
        return regex.compile(expression)
    except (regex.error, RecursionError, UnicodeEncodeError) as fault:
        names = ", ".join(PATTERNS)
        shown = expression if len(expression) <= 200 else expression[:200] + "..."
        raise TokenizerError(
            f"pattern must be one of {names} or a regular expression, got {shown!r} ({fault}); mend the expression"
        ) from None
