"""An evaluation as tables, and tables as Markdown."""

from collections.abc import Callable

from tokenizer.measures.evaluation import Evaluation, LanguageMeasures, TokenizerMeasures
from tokenizer.measures.page import Table
from tokenizer.measures.spelling import show_token

__all__ = ["make_tables", "to_markdown"]


def make_tables(evaluation: Evaluation) -> list[Table]:
    """Make the tables of measures, of compression and coverage by language, of name parts, and of differences."""
    tables = [
        _measures(evaluation),
        _by_language(evaluation, "Compression by language (bytes a token)", lambda row: _rate(row.compression_rate)),
        _by_language(evaluation, "Coverage by language (distinct tokens)", lambda row: f"{row.coverage:,}"),
        _name_parts(evaluation),
    ]
    return [*tables, _differences(evaluation)] if len(evaluation.tokenizers) > 1 else tables


def to_markdown(table: Table) -> str:
    """Write a table of texts: its caption, then Markdown that lines up; all columns but the first to the right."""
    rows = [[str(cell).replace("|", "\\|") for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) + " |" for row in rows]
    rule = "|-" + "-" * widths[0] + "-|" + "|".join("-" * (width + 1) + ":" for width in widths[1:]) + "|"
    caption = f"{table.caption}\n\n" if table.caption else ""
    return caption + "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def _measures(evaluation: Evaluation) -> Table:
    size = f"{evaluation.num_bytes:,} bytes of text in {evaluation.num_documents:,} documents"
    columns = ("tokenizer", "tokens", "compression", "coverage", "share", "token length", "3-digit numbers", "Gini")
    columns += ("steps", "MB / CPU s", "longest name")
    rows = [
        (
            measures.name,
            f"{measures.vocab_size:,}",
            _rate(measures.compression_rate),
            f"{measures.coverage:,}",
            f"{measures.coverage_share:.1%}",
            f"{measures.mean_token_length:.3f}",
            f"{measures.three_digit_numbers:,}",
            "-" if measures.gini is None else f"{measures.gini:.4f}",
            "-" if measures.training_steps is None else f"{measures.training_steps:,}",
            f"{evaluation.num_bytes / 1e6 / measures.cpu_seconds:.1f}" if measures.cpu_seconds else "-",
            _longest_name(measures),
        )
        for measures in evaluation.tokenizers
    ]
    lost = "".join(
        f"; {measures.name} has no tokens for {measures.lost_bytes:,} bytes"
        for measures in evaluation.tokenizers
        if measures.lost_bytes
    )
    return Table(columns=columns, rows=rows, caption=f"Measures on {size}{lost}")


def _longest_name(measures: TokenizerMeasures) -> str:
    return f"{len(measures.name_parts) - 1} {show_token(measures.longest_name)}"


def _by_language(evaluation: Evaluation, caption: str, show: Callable[[LanguageMeasures], str]) -> Table:
    by_tokenizer = [measures.languages for measures in evaluation.tokenizers]
    rows = [
        (rows[0].language, f"{rows[0].num_documents:,}", f"{rows[0].num_bytes / 1e6:,.3f}", *map(show, rows))
        for rows in zip(*by_tokenizer, strict=True)
    ]
    names = [measures.name for measures in evaluation.tokenizers]
    return Table(columns=("language", "documents", "MB", *names), rows=rows, caption=caption)


def _name_parts(evaluation: Evaluation) -> Table:
    most = max(len(measures.name_parts) for measures in evaluation.tokenizers)
    rows = [
        (str(parts), *(f"{sum(measures.name_parts[parts : parts + 1]):,}" for measures in evaluation.tokenizers))
        for parts in range(most)
    ]
    names = [measures.name for measures in evaluation.tokenizers]
    return Table(columns=("parts", *names), rows=rows, caption="Tokens by the number of their name parts")


def _differences(evaluation: Evaluation) -> Table:
    names = [measures.name for measures in evaluation.tokenizers]
    rows = [(name, *(f"{count:,}" for count in row)) for name, row in zip(names, evaluation.differences, strict=True)]
    return Table(columns=("not in", *names), rows=rows, caption="Tokens of a row's vocabulary that a column's has not")


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.4f}"
