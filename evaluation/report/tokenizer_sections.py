"""Tokenizers as sections of a page: the splitter, what their vocabularies hold, and how merges came about."""

from collections import Counter
from collections.abc import Mapping
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from evaluation.report.splitter import make_splitter
from evaluation.undertrained.categories import CATEGORIES, categorize
from tokenizer import Tokenizer
from tokenizer.measures.differences import count_differences
from tokenizer.measures.history import history
from tokenizer.measures.names import count_name_parts
from tokenizer.measures.numbers import count_three_digit_numbers
from tokenizer.measures.page import Cell, Section, Table
from tokenizer.measures.plots import plot_bars, plot_density, plot_histogram, plot_name_parts
from tokenizer.measures.spelling import show_token
from tokenizer.splitting.patterns import PATTERNS

__all__ = ["OpenedTokenizer", "tokenizer_sections"]

MOST_NAMED = 12
LONGEST = 60  # characters of a token that is shown
DIGITS = ("1", "2", "3", "4", "5", "6")


class OpenedTokenizer(NamedTuple):
    """A tokenizer, and in words what its folder lacks."""

    tokenizer: Tokenizer
    notes: list[str]


def tokenizer_sections(opened: Mapping[str, OpenedTokenizer]) -> list[Section]:
    """Sections on tokenizers by name."""
    tokenizers = {name: one.tokenizer for name, one in opened.items()}
    notes = [f"{name}: {note}" for name, one in opened.items() for note in one.notes]
    sections = [_splitter_section(tokenizers), _measures_section(tokenizers, notes), _tokens_section(tokenizers)]
    return sections + [section for name, one in tokenizers.items() if (section := _history_section(name, one))]


def _splitter_section(tokenizers: Mapping[str, Tokenizer]) -> Section:
    widget, left_out = make_splitter(tokenizers)
    notes = list(left_out)
    if widget:
        notes.insert(0, _SPLITTER_NOTE)
    return Section(title="Text, token by token", notes=notes, widget=widget)


_SPLITTER_NOTE = (
    "Underlined: tokens that the other tokenizer does not have at that place. F, R, L of a token: how often the pair "
    "stood in the training text when it was merged, in how many repositories, in how many languages. Names of special "
    "tokens are ordinary text here."
)


def _measures_section(tokenizers: Mapping[str, Tokenizer], notes: list[str]) -> Section:
    facts = {name: _facts(one) for name, one in tokenizers.items()}
    labels = dict.fromkeys(label for named in facts.values() for label in named)
    rows = [(label, *(named.get(label) for named in facts.values())) for label in labels]
    tables = [Table(columns=("", *tokenizers), rows=rows)]
    if len(tokenizers) > 1:
        vocabularies = [[token for token in one.token_bytes if token] for one in tokenizers.values()]
        differences = count_differences(vocabularies)
        rows = [(name, *row) for name, row in zip(tokenizers, differences, strict=True)]
        caption = "Tokens of a row's vocabulary that a column's has not"
        tables.append(Table(columns=("not in", *tokenizers), rows=rows, caption=caption))
    return Section(title="Vocabulary", notes=notes, tables=tables)


def _facts(tokenizer: Tokenizer) -> dict[str, str]:
    learned = [token for token in tokenizer.token_bytes if token]
    options = tokenizer.provenance.get("options")
    options = options if isinstance(options, dict) else {}
    patterns = [name for name, expression in PATTERNS.items() if expression == tokenizer.pattern]
    facts: dict[str, Cell] = {
        "tokens": tokenizer.vocab_size,
        "merges": len(tokenizer.pairs),
        "special tokens": len(tokenizer.special_tokens),
        "pattern": " = ".join(patterns) or tokenizer.pattern,
        "priority": tokenizer.provenance.get("priority"),
        "least repositories": options.get("min_repositories"),
        "least languages": options.get("min_languages"),
        "repositories in training": tokenizer.provenance.get("repositories"),
        "languages in training": tokenizer.provenance.get("languages"),
        "mean token length, bytes": f"{np.mean([len(token) for token in learned]):.3f}",
        "longest token, bytes": max(map(len, learned)),
        "three-digit numbers of 900": count_three_digit_numbers(learned),
        "most parts of a name": max(count_name_parts(learned)),
    }
    if tokenizer.merges is not None and tokenizer.merges.frequency.any():
        made = history(tokenizer)
        facts["merges of one repository"] = _count_ones(made.repositories)
        facts["merges of one language"] = _count_ones(made.languages)
    facts["fingerprint"] = tokenizer.fingerprint[:12]
    return {
        name: f"{fact:,}" if isinstance(fact, int) else str(fact) for name, fact in facts.items() if fact is not None
    }


def _count_ones(values: np.ndarray) -> str:
    return f"{np.sum(values == 1):,} ({np.mean(values == 1):.1%})"


def _tokens_section(tokenizers: Mapping[str, Tokenizer]) -> Section:
    learned = {name: [token for token in one.token_bytes if token] for name, one in tokenizers.items()}
    lengths = {name: np.bincount([len(token) for token in tokens]) for name, tokens in learned.items()}
    parts = {name: np.bincount(count_name_parts(tokens)) for name, tokens in learned.items()}
    digits = {name: _count_digits(tokens).tolist() for name, tokens in learned.items()}
    kinds = {name: [(categorize(token), token) for token in tokens] for name, tokens in learned.items()}
    by_kind = {name: Counter(kind for kind, _ in found) for name, found in kinds.items()}
    shown = [category for category in CATEGORIES if any(found[category] for found in by_kind.values())]
    counts = {name: [found[category] for category in shown] for name, found in by_kind.items()}
    plots = [
        plot_histogram("Length of tokens", lengths, label="bytes", first=1),
        plot_bars("Categories of tokens", shown, counts, label="tokens"),
        plot_bars("Numbers among tokens, by digits", DIGITS, digits, label="tokens"),
        plot_name_parts(parts),
    ]
    return Section(title="Tokens", notes=[_CATEGORIES_NOTE], plots=plots, tables=[_longest_names(kinds)])


_CATEGORIES_NOTE = (
    "Categories go by rules on the text of a token alone: letters of another script than Latin; punctuation without "
    "letters and digits; capitals; names and their parts; other. Numbers are tokens of digits alone, by their number "
    "of digits."
)


def _count_digits(tokens: list[bytes]) -> np.ndarray:
    """int64[len(DIGITS)]: tokens of 1, 2, ... ASCII digits and nothing else."""
    sizes = [len(token) for token in tokens if token.isdigit() and len(token) <= len(DIGITS)]
    return np.bincount(sizes, minlength=len(DIGITS) + 1)[1:]


def _longest_names(kinds: Mapping[str, list[tuple[str, bytes]]]) -> Table:
    """The longest tokens that are names or parts of names, a column a tokenizer."""
    names = {
        name: sorted((token for kind, token in found if kind == "names"), key=len, reverse=True)[:MOST_NAMED]
        for name, found in kinds.items()
    }
    rows = list(zip_longest(*([_brief(token) for token in tokens] for tokens in names.values()), fillvalue=""))
    return Table(columns=list(names), rows=rows, caption="Longest names")


def _brief(token: bytes) -> str:
    spelled = show_token(token)
    return spelled if len(spelled) <= LONGEST else f"{spelled[:LONGEST]} ..."


def _history_section(name: str, tokenizer: Tokenizer) -> Section | None:
    """F, R and L of merges over their number; None where nobody knows them."""
    if tokenizer.merges is None or not tokenizer.merges.frequency.any():
        return None
    made = history(tokenizer)
    columns = (("F", made.frequency), ("R", made.repositories), ("L", made.languages))
    plots = [
        plot_density(f"{name}: {label} of merges", values, label=label, colour=colour)
        for colour, (label, values) in enumerate(columns)
    ]
    order = np.lexsort((-made.frequency, made.repositories))[:MOST_NAMED]
    spelled = [tokenizer.token_bytes[number] for number in tokenizer.ids[256 + made.numbers[order]]]
    rows = [
        (
            _brief(token),
            int(made.numbers[at]),
            int(made.frequency[at]),
            int(made.repositories[at]),
            int(made.languages[at]),
        )
        for token, at in zip(spelled, order, strict=True)
    ]
    caption = "Merges of the fewest repositories, the most frequent first"
    table = Table(columns=("token", "merge", "F", "R", "L"), rows=rows, caption=caption)
    return Section(title=f"History of merges: {name}", notes=[_HISTORY_NOTE], plots=plots, tables=[table])


_HISTORY_NOTE = (
    "F, R, L when a pair was merged: how often it stood in the training text, in how many repositories and languages. "
    "The line is a running median. Merges that few repositories hold become the under-trained tokens of a model."
)
