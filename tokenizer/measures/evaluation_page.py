"""An evaluation as a page of tables and plots."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from tokenizer.measures.evaluation import Evaluation, LanguageMeasures
from tokenizer.measures.history import history
from tokenizer.measures.page import Section, write_page
from tokenizer.measures.plots import (
    plot_bars,
    plot_density,
    plot_histogram,
    plot_name_parts,
    plot_probabilities,
)
from tokenizer.measures.probabilities import probabilities
from tokenizer.measures.subject import Subject
from tokenizer.measures.table import make_tables
from tokenizer.vocabulary import Tokenizer

__all__ = ["write_evaluation_page"]


def write_evaluation_page(path: Path, evaluation: Evaluation, tokenizers: Mapping[str, Subject]) -> None:
    """Write the page, whole or not at all; merge histories are shown of those tokenizers that know theirs."""
    measures, compression, coverage, parts, *differences = make_tables(evaluation)
    rates = _bars(evaluation, "Compression", "bytes a token", lambda row: row.compression_rate)
    used = _bars(evaluation, "Coverage", "distinct tokens", lambda row: row.coverage)
    lengths = {one.name: np.array(one.token_lengths) for one in evaluation.tokenizers}
    names = {one.name: np.array(one.name_parts) for one in evaluation.tokenizers}
    by_rank = {one.name: probabilities(one.token_counts) for one in evaluation.tokenizers}
    sections = [
        Section(title="Measures", notes=[_GLOSSARY], tables=[measures, *differences]),
        Section(title="Languages", plots=[rates, used], tables=[compression, coverage]),
        Section(
            title="Tokens",
            plots=[
                plot_histogram("Length of tokens", lengths, label="bytes", first=1),
                plot_name_parts(names),
                plot_probabilities(by_rank),
            ],
            tables=[parts],
        ),
    ]
    if histories := _histories(tokenizers):
        notes = ["R and L: repositories and languages that hold a pair when it is merged."]
        sections.append(Section(title="Merge history", notes=notes, plots=histories))
    write_page(path, f"Tokenizers: {', '.join(tokenizers)}", sections)


_GLOSSARY = (
    "Compression: bytes of UTF-8 a token. Coverage: distinct tokens that occur; share: of the byte and learned tokens. "
    "Token length: mean over these, in bytes. Gini: inequality of compression among languages, 0 for none. "
    "Steps: merges, and pairs skipped on reaching the top. Longest name: the token with the most parts of a name. "
    "MB / CPU s depends on the machine."
)


def _bars(evaluation: Evaluation, title: str, label: str, value: Callable[[LanguageMeasures], float | None]) -> str:
    series = {
        one.name: [np.nan if (number := value(row)) is None else number for row in one.languages]
        for one in evaluation.tokenizers
    }
    groups = [row.language or "(none)" for row in evaluation.tokenizers[0].languages]
    return plot_bars(f"{title} by language", groups, series, label=label)


def _histories(tokenizers: Mapping[str, Subject]) -> list[str]:
    plots = []
    for colour, (name, subject) in enumerate(tokenizers.items()):
        if isinstance(subject, Tokenizer) and subject.merges and subject.merges.frequency.any():
            made = history(subject)
            plots.append(plot_density(f"{name}: R of merges", made.repositories, label="R", colour=colour))
            plots.append(plot_density(f"{name}: L of merges", made.languages, label="L", colour=colour))
    return plots
