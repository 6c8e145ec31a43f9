"""Losses of models on the same documents as a page of plots and tables."""

import math
from pathlib import Path

import numpy as np

from evaluation.perplexity import DocumentLosses, summarize
from evaluation.perplexity_groups import Group, by_language
from evaluation.perplexity_tables import Comparison, make_tables
from tokenizer.measures.page import Section, write_page
from tokenizer.measures.plots import plot_bars, plot_lines

__all__ = ["write_perplexity_page"]

MOST_LANGUAGES = 12
_NOTE = (
    "Bits per byte are those of the text alone, over the same bytes for every model, so they compare models with "
    "different tokenizers; loss is in nats per token of the model's own. ± is a standard error: over documents, or "
    "over repositories, whose documents are alike."
)


def write_perplexity_page(path: Path, comparison: Comparison) -> None:
    """Write the page, whole or not at all."""
    whole, *rest = make_tables(comparison)
    plots = [_by_position(comparison), _by_group(comparison, comparison.lengths, "length of document (tokens)")]
    if len(next(iter(comparison.losses.values()))) > 1:
        plots.insert(0, _by_context(comparison))
    languages = by_language(comparison.documents)[:MOST_LANGUAGES]
    if len(languages) > 1:
        plots.append(_by_group(comparison, languages, "language"))
    sections = [
        Section(title="All documents", notes=[_NOTE], plots=plots, tables=[whole]),
        Section(title="In parts", tables=rest),
    ]
    write_page(path, f"Perplexity of {', '.join(comparison.losses)}", sections)


def _by_context(comparison: Comparison) -> str:
    series = {
        name: (
            np.array([one.context for one in ones]),
            np.array([summarize(one, comparison.documents).bits_per_byte.value for one in ones]),
        )
        for name, ones in comparison.losses.items()
    }
    x_label, contexts = "most tokens before a token", [one.context for one in next(iter(comparison.losses.values()))]
    # A logarithmic axis names the powers of ten alone.
    log = "x" if max(contexts) >= 100 * min(contexts) else ""
    return plot_lines("Bits per byte by context", series, x_label=x_label, y_label="bits per byte", log=log, marks=True)


def _by_position(comparison: Comparison) -> str:
    """Of one model a line a context, of several a line each at the longest."""
    if len(comparison.losses) == 1:
        (ones,) = comparison.losses.values()
        series = {f"context {one.context:,}": _position_line(one) for one in ones}
    else:
        series = {name: _position_line(one) for name, one in comparison.longest.items()}
    title, x_label = "Bits per byte by position in the document", "tokens before a token"
    return plot_lines(title, series, x_label=x_label, y_label="bits per byte", log="x", marks=True)


def _position_line(one: DocumentLosses) -> tuple[np.ndarray, np.ndarray]:
    """From 1 on: the token that begins a document counts as one before the first."""
    nll, _, num_bytes = one.positions.T
    told = num_bytes > 0
    return one.starts[told] + 1, nll[told] / math.log(2) / num_bytes[told]


def _by_group(comparison: Comparison, groups: list[Group], label: str) -> str:
    series = {
        name: [summarize(one, comparison.documents, group.rows).bits_per_byte.value for group in groups]
        for name, one in comparison.longest.items()
    }
    names = [group.name for group in groups]
    return plot_bars(f"Bits per byte by {label}", names, series, label="bits per byte")
