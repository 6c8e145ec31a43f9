"""Pruning curves as a table, as plain values and as a page."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tokenizer.measures.page import Section, Table
from tokenizer.measures.plots import plot_pruning
from tokenizer.measures.pruning import CurvePoint

__all__ = ["curves_json", "curves_sections", "curves_table"]

Curves = Mapping[str, Sequence[CurvePoint]]
"""Points of the same sizes, the largest first, by way of pruning."""


def curves_table(curves: Curves) -> Table:
    """Make a row for each size: bytes a token by each way of pruning, and the loss against the largest."""
    columns = ["tokens", "pruned", *(f"{way}{what}" for way in curves for what in (", bytes / token", ", loss"))]
    rows = []
    for points in zip(*curves.values(), strict=True):
        row: list[str | int] = [points[0].vocab_size, _whole(curves).vocab_size - points[0].vocab_size]
        for point in points:
            loss = 1 - point.compression_rate / _whole(curves).compression_rate
            row += [f"{point.compression_rate:.4f}", f"{loss:.2%}"]
        rows.append(row)
    return Table(columns=columns, rows=rows, caption=f"Loss is against {_whole(curves).vocab_size:,} tokens.")


def curves_json(curves: Curves) -> dict[str, Any]:
    """Return {way: [{vocab_size, tokens, compression_rate}, ...]}."""
    return {
        way: [{"vocab_size": size, "tokens": num_tokens, "compression_rate": rate} for size, num_tokens, rate in points]
        for way, points in curves.items()
    }


def curves_sections(curves: Curves, notes: Sequence[str] = ()) -> list[Section]:
    """Make what a page shows of the curves (`tokenizer.measures.page`)."""
    series = {}
    for way, points in curves.items():
        sizes, _, rates = np.array(points[::-1]).T
        series[way] = (sizes, rates)
    return [Section(title="Pruning", notes=notes, plots=[plot_pruning(series)], tables=[curves_table(curves)])]


def _whole(curves: Curves) -> CurvePoint:
    return next(iter(curves.values()))[0]
