"""The named split patterns as regular expressions of JavaScript (flags g and u).

Browsers know neither possessive quantifiers nor, all of them, `(?i:...)`. Where a possessive quantifier stands in ours,
what follows cannot match what it took, so a greedy one finds the same. Of letters that fold to those of the
contractions, only U+017F is not ASCII. The page replaces every other character beyond ASCII by one of its class before
it splits, so that `\\p{L}` and `\\s` mean what the frozen tables say.
"""

from tokenizer.interchange.huggingface_import import GPT2_WITH_SINGLE_DIGITS
from tokenizer.splitting.patterns import PATTERNS

__all__ = ["script_pattern"]

_CONTRACTIONS = r"'(?:[sSdDmMtT\u017f]|[lL][lL]|[vV][eE]|[rR][eE])"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES = r"\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K_WORDS = "|".join(
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}{first}{_LOWER}{second}(?:{_CONTRACTIONS})?" for first, second in ("*+", "+*")
)

_BY_EXPRESSION = {
    PATTERNS["none"]: "",
    PATTERNS["gpt2"]: PATTERNS["gpt2"],
    PATTERNS["gpt4"]: rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_MARKS}|\s*[\r\n]|{_SPACES}",
    PATTERNS["llama3"]: rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_MARKS}|\s*[\r\n]+|{_SPACES}",
    PATTERNS["qwen2"]: rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_MARKS}|\s*[\r\n]+|{_SPACES}",
    PATTERNS["o200k"]: rf"{_O200K_WORDS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|{_SPACES}",
    GPT2_WITH_SINGLE_DIGITS: GPT2_WITH_SINGLE_DIGITS,
}


def script_pattern(expression: str) -> str | None:
    """The expression (of a tokenizer, "" for none) as one of JavaScript; None where it is none of the named ones."""
    return _BY_EXPRESSION.get(expression)
