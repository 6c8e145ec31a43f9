"""What can be asked of a document at hand: the line that follows another, and what is defined in it."""

import re
from itertools import pairwise
from typing import NamedTuple

from evaluation.longcontext.haystack import Haystack

__all__ = ["Fact", "Facts"]

MOST_LINE_CHARACTERS = 80
FEWEST_LINE_CHARACTERS = 6

_DEFINITION = re.compile(
    r"^\s*(?:(?:export|default|public|private|protected|static|final|abstract|async|pub|unsafe|virtual|inline) +)*"
    r"(?:def|class|func|fn|function|fun|interface|struct|enum|trait|module|object|type) +(\w{4,40})\b"
)


class Fact(NamedTuple):
    """Something that a document says."""

    start: int
    """Where the lines that say it begin, by number of a token in the haystack."""
    end: int
    """Where they end."""
    cue: str
    """What is asked about: the line before the answer; of a definition the document itself, so nothing."""
    answer: str


class Facts:
    """What can be asked of the documents of a haystack: their lines or their definitions."""

    def __init__(self, haystack: Haystack, kind: str) -> None:
        self._haystack = haystack
        self._find = _find_definitions if kind == "definitions" else _find_lines
        self._found: dict[int, list[Fact]] = {}

    def of(self, document: int) -> list[Fact]:
        """All of a document, in order, but for what stands in it more than once."""
        if document not in self._found:
            self._found[document] = self._look(document)
        return self._found[document]

    def _look(self, document: int) -> list[Fact]:
        bounds = self._haystack.lines(document).tolist()
        lines = [self._haystack.decode(self._haystack.ids[start:end]) for start, end in pairwise(bounds)]
        text = "".join(lines)
        return [
            fact
            for fact in self._find(lines, bounds)
            if text.count(fact.answer.strip()) == 1 and (not fact.cue or text.count(fact.cue.strip()) == 1)
        ]


def _find_definitions(lines: list[str], bounds: list[int]) -> list[Fact]:
    found = [_DEFINITION.match(line) for line in lines]
    return [Fact(bounds[at], bounds[at + 1], "", match[1]) for at, match in enumerate(found) if match]


def _find_lines(lines: list[str], bounds: list[int]) -> list[Fact]:
    """Lines with nothing between them: a token may join the ends of several, most often blank ones."""
    fit = [_can_be_quoted(line) and line.count("\n") == 1 for line in lines]
    stripped = [line.rstrip("\r\n") for line in lines]
    return [
        Fact(bounds[at], bounds[at + 2], stripped[at], stripped[at + 1])
        for at in range(len(lines) - 1)
        if fit[at] and fit[at + 1]
    ]


def _can_be_quoted(line: str) -> bool:
    """Whether a line says something, in whole characters and not too many of them."""
    stripped = line.strip()
    return (
        FEWEST_LINE_CHARACTERS <= len(stripped) <= MOST_LINE_CHARACTERS
        and "\ufffd" not in stripped
        and any(map(str.isalpha, stripped))
    )
