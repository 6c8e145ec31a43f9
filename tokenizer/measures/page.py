"""Results as one HTML file that needs nothing else: no network, no scripts; light or dark as the reader's system is."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizer.artefact import write_file
from tokenizer.measures.spelling import show_text

__all__ = ["Cell", "Section", "Table", "make_page", "write_page"]

Cell = str | int | float | None
"""What a table shows: integers with thousands separators, floats to three places or digits, nothing for None."""

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1d2430; --soft: #5c6675; --line: #d9dee5; --stripe: #f5f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14181e; --text: #dde3ea; --soft: #97a3b3; --line: #333c47; --stripe: #1b2129; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0; color: var(--soft); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
.plots svg { width: 100%; max-width: 40rem; height: auto; color: var(--text); }
figure { margin: 1rem 0; } figcaption { color: var(--soft); padding-bottom: .3rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid var(--line); overflow-wrap: normal; }
th { min-width: 4.5rem; vertical-align: bottom; }
td { white-space: pre-wrap; max-width: 32rem; }
tbody tr:nth-child(even) { background: var(--stripe); }
.number { text-align: right; }
"""

_NUMBER = re.compile(r"[-+−]?[\d,]*\.?\d+(e[-+]?\d+)?\s?%?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under column heads; a column that holds numbers alone is aligned to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading, then paragraphs, plots and tables."""

    title: str
    notes: Sequence[str] = ()
    """Paragraphs of plain text."""
    plots: Sequence[str] = ()
    """SVG texts, as `tokenizer.measures.plots` makes them."""
    tables: Sequence[Table] = ()


def write_page(path: str | Path, title: str, sections: Sequence[Section]) -> None:
    """Write the page, whole or not at all; raises TokenizerError for a place that cannot be written."""
    write_file(Path(path), make_page(title, sections).encode())


def make_page(title: str, sections: Sequence[Section]) -> str:
    """Make the page's text: HTML that is XML too, the same for the same content."""
    head = '<meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>'
    body = [f"<h1>{_escape(title)}</h1>"]
    num_plots = 0
    for section in sections:
        body.append(f"<section><h2>{_escape(section.title)}</h2>")
        body += [f"<p>{_escape(note)}</p>" for note in section.notes]
        if section.plots:
            plots = [_own_ids(plot, f"plot{num_plots + index}-") for index, plot in enumerate(section.plots)]
            num_plots += len(plots)
            body.append('<div class="plots">' + "\n".join(plots) + "</div>")
        body += [_table(table) for table in section.tables]
        body.append("</section>")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}<title>{_escape(title)}</title><style>{_STYLE}</style></head>\n'
        "<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _own_ids(svg: str, prefix: str) -> str:
    """Prefix the ids of a plot that something in it refers to, and drop the others: ids are unique in a page."""
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{prefix}{match[1]}"' if match[1] in used else "", svg)
    return re.sub(r'(url\(|href=")#', rf"\g<1>#{prefix}", svg)


def _table(table: Table) -> str:
    for row in table.rows:
        if len(row) != len(table.columns):
            raise ValueError(f"rows must have {len(table.columns)} cells, got {len(row)}: {row}")
    shown = [[_show(cell) for cell in row] for row in table.rows]
    heads = [""] * len(table.columns)
    for column in range(len(heads)):
        cells = [row[column] for row in shown if row[column]]
        if cells and all(_NUMBER.fullmatch(cell) for cell in cells):
            heads[column] = ' class="number"'
    caption = f"<figcaption>{_escape(table.caption)}</figcaption>" if table.caption else ""
    head = "".join(f"<th{kind}>{_escape(name)}</th>" for name, kind in zip(table.columns, heads, strict=True))
    rows = [
        "<tr>" + "".join(f"<td{kind}>{_escape(cell)}</td>" for cell, kind in zip(row, heads, strict=True)) + "</tr>"
        for row in shown
    ]
    body = "\n".join(rows)
    content = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
    return f'<figure>{caption}<div class="table">{content}</div></figure>'


def _show(cell: Cell) -> str:
    """A cell's text.

    >>> [_show(cell) for cell in (None, 32768, 3.14159, 0.0001234, 12345.6, "x")]
    ['', '32,768', '3.142', '0.000123', '12,345.600', 'x']
    """
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.3f}" if abs(cell) >= 0.01 or cell == 0 else f"{cell:.3g}"


def _escape(text: str) -> str:
    return html.escape(show_text(text))
