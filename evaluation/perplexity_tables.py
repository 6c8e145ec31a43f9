"""Losses of models on the same documents as tables and as JSON."""

import math
from dataclasses import dataclass
from typing import Any

from evaluation.held_out_documents import Documents
from evaluation.perplexity import DocumentLosses, Summary, summarize
from evaluation.perplexity_groups import (
    LEAST_BYTES,
    Group,
    best_and_worst,
    by_language,
    by_length,
    by_repository,
    rankable,
)
from evaluation.subject import Subject
from evaluation.uncertainty import Estimate, estimate_difference
from tokenizer.measures.page import Table

__all__ = ["Comparison", "differences", "make_tables", "to_json"]

NUM_REPOSITORIES = 5


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Models by name, each with its losses on the same documents at the same context lengths."""

    documents: Documents
    subjects: dict[str, Subject]
    losses: dict[str, list[DocumentLosses]]

    @property
    def longest(self) -> dict[str, DocumentLosses]:
        """Of each model the losses at the longest context."""
        return {name: max(ones, key=lambda one: one.context) for name, ones in self.losses.items()}

    @property
    def lengths(self) -> list[Group]:
        """Documents by the tokens of their text, as the first model counts them."""
        return by_length(next(iter(self.longest.values())).num_tokens)


def differences(comparison: Comparison) -> list[tuple[str, int, Estimate]]:
    """Bits per byte of each model but the first, less those of the first: (name, context, difference)."""
    num_bytes, clusters = comparison.documents.num_bytes.astype(float), comparison.documents.clusters
    (_, firsts), *others = comparison.losses.items()
    return [
        (name, one.context, estimate_difference(_bits(first, num_bytes), _bits(one, num_bytes), clusters))
        for name, ones in others
        for first, one in zip(firsts, ones, strict=True)
    ]


def make_tables(comparison: Comparison) -> list[Table]:
    """Tables of all documents, of differences, and by length, position, language and repository."""
    tables = [_whole(comparison)]
    if len(comparison.losses) > 1:
        tables.append(_differences(comparison))
    tables.append(_by_group(comparison, comparison.lengths, "length", "Bits per byte by length of document (tokens)"))
    tables.append(_by_position(comparison))
    tables.append(_by_group(comparison, by_language(comparison.documents), "language", "Bits per byte by language"))
    return tables + _by_repository(comparison)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """All that the tables hold and more, as plain values."""
    groups = {
        "lengths": comparison.lengths,
        "languages": by_language(comparison.documents),
        "repositories": by_repository(comparison.documents),
    }
    models = [
        {
            "name": name,
            "model": str(subject.place),
            "step": subject.step,
            "tokenizer": subject.tokenizer.fingerprint,
            "rope_base": subject.config.rope_base,
            "contexts": [_context_json(one, comparison.documents, groups) for one in comparison.losses[name]],
        }
        for name, subject in comparison.subjects.items()
    ]
    compared = [
        {"name": name, "context": context, "bits_per_byte": difference._asdict()}
        for name, context, difference in differences(comparison)
    ]
    return {"documents": comparison.documents.describe(), "models": models, "differences_from_first": compared}


def _whole(comparison: Comparison) -> Table:
    columns = (
        "model",
        "context",
        "stride",
        "loss",
        "±",
        "perplexity",
        "bits per byte",
        "±",
        "± repositories",
        "loss of end",
    )
    rows = []
    for name, ones in comparison.losses.items():
        for one in ones:
            found = summarize(one, comparison.documents)
            loss = (*_shown(found.loss), f"{found.perplexity:.2f}")
            bits = (*_shown(found.bits_per_byte), _show(found.bits_per_byte.cluster_error))
            rows.append((name, f"{one.context:,}", f"{one.stride:,}", *loss, *bits, f"{found.end_loss:.4f}"))
    caption = f"{comparison.documents.describe()}; loss in nats per token of text, ± is a standard error"
    caption += _say_ranked(comparison)
    return Table(columns=columns, rows=rows, caption=caption)


def _differences(comparison: Comparison) -> Table:
    rows = [
        (name, f"{context:,}", f"{one.value:+.4f}", _show(one.error), _show(one.cluster_error))
        for name, context, one in differences(comparison)
    ]
    first = next(iter(comparison.losses))
    caption = f"Bits per byte less those of {first}, paired by document"
    return Table(columns=("model", "context", "difference", "±", "± repositories"), rows=rows, caption=caption)


def _by_group(comparison: Comparison, groups: list[Group], kind: str, caption: str) -> Table:
    columns = [kind, "documents", "bytes"]
    for name in comparison.longest:
        columns += [name, "±"]
    rows = []
    for group in groups:
        found = [summarize(one, comparison.documents, group.rows) for one in comparison.longest.values()]
        cells = [cell for summary in found for cell in _shown(summary.bits_per_byte)]
        rows.append((group.name, f"{found[0].documents:,}", f"{found[0].num_bytes:,}", *cells))
    return Table(columns=columns, rows=rows, caption=f"{caption}{_at_context(comparison)}")


def _by_repository(comparison: Comparison) -> list[Table]:
    """The repositories of most and of fewest bits per byte, where there are several to rank."""
    repositories = rankable(by_repository(comparison.documents), comparison.documents)
    if len(repositories) < 2:
        return []
    first = next(iter(comparison.longest.values()))
    best, worst = best_and_worst(repositories, first, comparison.documents, NUM_REPOSITORIES)
    return [
        _by_group(comparison, groups, "repository", f"Repositories of {which} bits per byte")
        for which, groups in (("most", worst), ("fewest", best))
    ]


def _say_ranked(comparison: Comparison) -> str:
    """Which repositories are ranked, where there are several."""
    repositories = by_repository(comparison.documents)
    if len(repositories) < 2:
        return ""
    count = len(rankable(repositories, comparison.documents))
    return f"; repositories are ranked from {LEAST_BYTES:,} bytes of text on: {count:,} of {len(repositories):,}"


def _by_position(comparison: Comparison) -> Table:
    """Tokens of other tokenizers lie elsewhere, so losses are compared with care: hence bits per byte beside them."""
    columns = ["position"]
    for name in comparison.longest:
        columns += [f"{name}: tokens", "loss", "bits per byte"]
    starts = max((one.starts for one in comparison.longest.values()), key=len)
    rows = []
    for number, start in enumerate(starts):
        cells: list[str] = []
        for one in comparison.longest.values():
            nll, tokens, num_bytes = one.positions[number] if number < len(one.positions) else (0.0, 0.0, 0.0)
            loss = f"{nll / tokens:.4f}" if tokens else "-"
            cells += [f"{int(tokens):,}", loss, f"{nll / math.log(2) / num_bytes:.4f}" if num_bytes else "-"]
        rows.append((f"{start:,}", *cells))
    caption = f"By tokens of the document before a token, from a position to the next{_at_context(comparison)}"
    return Table(columns=columns, rows=rows, caption=caption)


def _context_json(one: DocumentLosses, documents: Documents, groups: dict[str, list[Group]]) -> dict[str, Any]:
    grouped = {
        kind: [{"name": group.name} | _summary_json(summarize(one, documents, group.rows)) for group in members]
        for kind, members in groups.items()
    }
    positions = [
        {"start": start, "tokens": int(tokens), "bytes": int(num_bytes), "loss": nll / tokens if tokens else None}
        for start, (nll, tokens, num_bytes) in zip(one.starts.tolist(), one.positions.tolist(), strict=True)
    ]
    whole = _summary_json(summarize(one, documents))
    return {"context": one.context, "stride": one.stride} | whole | {"positions": positions} | grouped


def _summary_json(found: Summary) -> dict[str, Any]:
    return found._asdict() | {"loss": found.loss._asdict(), "bits_per_byte": found.bits_per_byte._asdict()}


def _bits(one: DocumentLosses, num_bytes: Any) -> tuple[Any, Any]:
    return one.text_nll / math.log(2), num_bytes


def _at_context(comparison: Comparison) -> str:
    contexts = {one.context for one in comparison.longest.values()}
    return f", context {', '.join(f'{context:,}' for context in sorted(contexts))}"


def _shown(estimate: Estimate) -> tuple[str, str]:
    return f"{estimate.value:.4f}", _show(estimate.error)


def _show(error: float | None) -> str:
    return "-" if error is None else f"{error:.4f}"
