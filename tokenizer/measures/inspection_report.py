"""What an inspection shows, as lines for a terminal and as plain values for JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from tokenizer.measures.inspection import Inspector, SplitText, TokenReport
from tokenizer.measures.occurrences import MOST_STANDING, Intermediate, Occurrences, Survey
from tokenizer.measures.spelling import show_count, show_text, show_token

__all__ = ["intermediates_lines", "survey_json", "text_json", "text_lines", "token_json", "token_lines"]

MOST_NAMED = 10
"""Tokens, repositories, ... that a line names; JSON has them all."""


def text_lines(split: SplitText, inspector: Inspector) -> Iterator[str]:
    """Say how a text is split: a line for each word, with the bytes and id of each token."""
    num_tokens = len(split.ids)
    rate = f", {split.num_bytes / num_tokens:.2f} bytes a token" if num_tokens else ""
    sizes = (show_count(split.num_bytes, "byte"), show_count(len(split.words), "word"), show_count(num_tokens, "token"))
    yield f"{', '.join(sizes)}{rate}: {show_text(split.text)}"
    shown = [show_token(word.data) for word in split.words]
    width = max(map(len, shown), default=0)
    spelled = inspector.tokenizer.token_bytes
    for word, name in zip(split.words, shown, strict=True):
        tokens = " · ".join(f"{show_token(spelled[number])} {number}" for number in word.ids)
        yield f"  {name.ljust(width)}  {tokens}"


def token_lines(report: TokenReport, inspector: Inspector, survey: Survey | None = None) -> Iterator[str]:
    """Say what a token is made of, what is made of it, and where it occurs."""
    yield f"token {report.id}  {_spell(report)}  {_nature(report)}"
    if report.parts:
        yield from _tree_table(report, inspector)
    if part_of := inspector.part_of(report.id):
        spelled = inspector.tokenizer.token_bytes
        names = _names([f"{show_token(spelled[number])} {number}" for number in part_of])
        yield f"  part of {len(part_of):,}, in {len(inspector.contained_in(report.id)):,} in all: {names}"
    if survey:
        yield from _occurrence_lines(survey.occurrences[report.id], survey)


def intermediates_lines(survey: Survey, inspector: Inspector, number: int) -> Iterator[str]:
    """Name the tokens that are most often made and hardly ever stay."""
    found = survey.intermediates
    yield f"{len(found):,} tokens stay in less than {MOST_STANDING:.0%} of the cases in which they are made:"
    rows = [("token", "id", "made", "stays", "F")]
    for token in found[:number]:
        spelled = show_token(inspector.tokenizer.token_bytes[token.id])
        rows.append((spelled, str(token.id), f"{token.made:,}", f"{token.count:,}", _number(token.frequency)))
    yield from _columns(rows)


def text_json(split: SplitText) -> dict[str, Any]:
    """A text's words and ids."""
    return {
        "text": split.text,
        "bytes": split.num_bytes,
        "ids": list(split.ids),
        "words": [{"word": show_token(word.data), "ids": list(word.ids)} for word in split.words],
    }


def token_json(report: TokenReport, inspector: Inspector, survey: Survey | None = None) -> dict[str, Any]:
    """All of a report; `tree` has each token that it is made of once, from the top down, with its own parts."""
    below = {part.id: _report_json(part) for _, part, _ in _walk(report, inspector) if part.id != report.id}
    content = _report_json(report) | {
        "tree": list(below.values()),
        "is_leaf": report.is_leaf,
        "part_of": list(inspector.part_of(report.id)),
        "contained_in": list(inspector.contained_in(report.id)),
    }
    if survey:
        occurrences = survey.occurrences[report.id]
        content["occurrences"] = {
            "count": occurrences.count,
            "made": occurrences.made,
            "repositories": dict(occurrences.repositories),
            "languages": dict(occurrences.languages),
            "words": [{"word": show_token(word), "count": count} for word, count in occurrences.words],
        }
    return content


def survey_json(survey: Survey, inspector: Inspector, num_intermediates: int) -> dict[str, Any]:
    """What the documents are, and the intermediate tokens that are most often made."""
    spelled = inspector.tokenizer.token_bytes

    def of(token: Intermediate) -> dict[str, Any]:
        return {"token": show_token(spelled[token.id]), **token._asdict()}

    return {
        "documents": survey.num_documents,
        "tokens": survey.num_tokens,
        "num_intermediates": len(survey.intermediates),
        "intermediates": [of(token) for token in survey.intermediates[:num_intermediates]],
    }


def _spell(report: TokenReport) -> str:
    return show_token(report.data)


def _nature(report: TokenReport) -> str:
    if report.kind == "special":
        return "special: text never becomes it"
    length = show_count(len(report.data), "byte")
    if report.merge is None:
        return length
    return f"{length}, merge {report.merge:,}" + (", a leaf: part of no other token" if report.is_leaf else "")


def _tree_table(report: TokenReport, inspector: Inspector) -> Iterator[str]:
    rows = [("", "id", "merge", "F", "R", "L")]
    for indent, part, is_repeated in _walk(report, inspector):
        cells = (_number(part.merge), _number(part.frequency), _number(part.repositories), _number(part.languages))
        rows.append((f"{indent}{_spell(part)}{' (as above)' if is_repeated else ''}", str(part.id), *cells))
    yield from _columns(rows)


def _walk(report: TokenReport, inspector: Inspector) -> Iterator[tuple[str, TokenReport, bool]]:
    """Yield the tree below a token, top down: what stands before it, the token, whether its parts were shown before.

    A tree may be as deep as its token is long, so there is a stack instead of recursion.
    """
    seen: set[int] = set()
    waiting = [("", "", report)]
    while waiting:
        before, below, token = waiting.pop()
        is_repeated = token.id in seen and token.parts is not None
        yield before, token, is_repeated
        seen.add(token.id)
        if token.parts and not is_repeated:
            left, right = map(inspector.describe, token.parts)
            waiting.append((f"{below}└ ", f"{below}  ", right))
            waiting.append((f"{below}├ ", f"{below}│ ", left))


def _report_json(report: TokenReport) -> dict[str, Any]:
    return {
        "id": report.id,
        "token": _spell(report),
        "hex": report.data.hex(),
        "kind": report.kind,
        "merge": report.merge,
        "parts": list(report.parts or ()),
        "frequency": report.frequency,
        "repositories": report.repositories,
        "languages": report.languages,
    }


def _occurrence_lines(occurrences: Occurrences, survey: Survey) -> Iterator[str]:
    share = occurrences.count / survey.num_tokens
    yield f"  occurs {occurrences.count:,} times ({share:.3%} of tokens) in {survey.num_documents:,} documents"
    inside = occurrences.made - occurrences.count
    if inside:
        yield f"  made {occurrences.made:,} times; {inside / occurrences.made:.1%} of these are inside other tokens"
    for name, sources in (("repositories", occurrences.repositories), ("languages", occurrences.languages)):
        if sources:
            named = _names([f"{show_text(source) or '(none)'} {count:,}" for source, count in sources])
            yield f"  {len(sources):,} {name}: {named}"
    if occurrences.words:
        yield f"  words: {_names([f'{show_token(word)} {count:,}' for word, count in occurrences.words])}"


def _names(names: Sequence[str]) -> str:
    return " · ".join(names[:MOST_NAMED]) + (" · ..." if len(names) > MOST_NAMED else "")


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Line up columns, all but the first to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield f"  {first.ljust(widths[0])}  {numbers}".rstrip()


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
