"""What training on a store would see, as a page with plots: its buckets, and how the kinds of sequences compare."""

from collections.abc import Mapping
from pathlib import Path

from dataservice.buckets import Bucket
from dataservice.statistics import BucketStatistics, Statistics
from tokenizer.measures.page import Section, Table, write_page
from tokenizer.measures.plots import plot_bars

__all__ = ["write_statistics_page"]

BUCKET_COLUMNS = ("length", "rows", "tokens", "padding", "rows taken", "rows left out", "rows repeated", "steps")
KIND_COLUMNS = (
    "sequences",
    "rows",
    "tokens",
    "tokens dropped",
    "padding",
    "steps",
    "average sequence",
    "average context",
)
MEANS = (
    "A sequence is what attention goes over: a row, or the piece of a document in a row that holds several. The "
    "average context is the number of tokens before a token, over all tokens: sum l (l - 1) / (2 sum l) for sequences "
    "of length l (Pouransari et al. 2024)."
)


def write_statistics_page(path: Path, place: str, statistics: Statistics, kinds: Mapping[str, Statistics]) -> None:
    """Write the page, whole or not at all.

    Args:
        path: of the HTML file.
        place: of the store, for people.
        statistics: of an epoch by the settings.
        kinds: of every kind of sequences, all rows of the store taken once.
    """
    sections = [epoch_section(statistics), kinds_section(kinds), lengths_section(kinds)]
    write_page(path, f"What training on {place} would see", sections)


def epoch_section(statistics: Statistics) -> Section:
    """Tokens and sequences of each length, in the store and in an epoch."""
    found = statistics.buckets
    names = [name_bucket(each.bucket) for each in found]
    tokens = {"in the store": [each.tokens for each in found], "in an epoch": [tokens_taken(each) for each in found]}
    rows = {"in the store": [each.rows for each in found], "in an epoch": [each.rows_taken for each in found]}
    lines = [
        (
            name,
            each.rows,
            each.tokens,
            percent(each.padding),
            each.rows_taken,
            each.rows_left_out,
            each.rows_repeated,
            each.steps,
        )
        for name, each in zip(names, found, strict=True)
    ]
    return Section(
        title="An epoch",
        notes=[
            f"{statistics.documents:,} documents, {statistics.steps:,} steps, {statistics.dropped_tokens:,} tokens "
            f"dropped; sequences have {statistics.mean_sequence:,.1f} tokens on average, and a token has "
            f"{statistics.mean_context:,.1f} before it."
        ],
        plots=[
            plot_bars("Tokens by length of rows", names, tokens, label="tokens"),
            plot_bars("Rows by length", names, rows, label="rows"),
        ],
        tables=[Table(columns=BUCKET_COLUMNS, rows=lines)],
    )


def kinds_section(kinds: Mapping[str, Statistics]) -> Section:
    """Totals and average lengths of every kind of sequences."""
    means = {
        "average sequence": [found.mean_sequence for found in kinds.values()],
        "average context": [found.mean_context for found in kinds.values()],
    }
    lines = [
        (
            kind,
            sum(each.rows for each in found.buckets),
            sum(each.tokens for each in found.buckets),
            found.dropped_tokens,
            percent(found.padding),
            found.steps,
            f"{found.mean_sequence:,.1f}",
            f"{found.mean_context:,.1f}",
        )
        for kind, found in kinds.items()
    ]
    return Section(
        title="Kinds of sequences, all rows taken once",
        notes=[MEANS],
        plots=[plot_bars("Average lengths", list(kinds), means, label="tokens")],
        tables=[Table(columns=KIND_COLUMNS, rows=lines)],
    )


def lengths_section(kinds: Mapping[str, Statistics]) -> Section:
    """Tokens and rows by length of every kind of sequences, packed rows with the others."""
    lengths = sorted({each.bucket.length for found in kinds.values() for each in found.buckets}, reverse=True)
    names = [f"{length:,}" for length in lengths]

    def sums(value: str) -> dict[str, list[int]]:
        return {
            kind: [sum(getattr(each, value) for each in found.buckets if each.bucket.length == n) for n in lengths]
            for kind, found in kinds.items()
        }

    return Section(
        title="Their rows, by length",
        plots=[
            plot_bars("Tokens of every kind by length of rows", names, sums("tokens"), label="tokens"),
            plot_bars("Rows of every kind by length", names, sums("rows"), label="rows"),
        ],
    )


def name_bucket(bucket: Bucket) -> str:
    """A bucket as people call it: "64 packed"."""
    return f"{bucket.length:,}{' packed' if bucket.packed else ''}"


def tokens_taken(found: BucketStatistics) -> float:
    """Targets of a bucket that an epoch takes, repeats counted again."""
    return found.tokens * found.rows_taken / max(found.rows, 1)


def percent(share: float) -> str:
    """A share as people write it."""
    return f"{100 * share:.1f}%"
