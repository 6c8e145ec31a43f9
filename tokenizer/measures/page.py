"""Results as one HTML file that needs nothing else; light or dark as the reader's system is.

The page itself forbids the network, and every script but those of its widgets (Content-Security-Policy), so that text
of strangers that got past escaping would still do nothing.
"""

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokenizer.measures.spelling import show_text
from tokenizer.output import write_file

__all__ = ["Cell", "Section", "Table", "Widget", "make_page", "write_page"]

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
nav { margin: 1rem 0; } nav a { display: inline-block; margin-right: 1rem; padding: .15rem 0; color: inherit; }
.table { overflow-x: auto; }
pre { max-height: 24rem; overflow: auto; padding: .7rem; background: var(--stripe); white-space: pre-wrap;
  font: .85rem/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid var(--line); overflow-wrap: normal; }
th { min-width: 4.5rem; vertical-align: bottom; }
td { white-space: pre-wrap; max-width: 32rem; }
tbody tr:nth-child(even) { background: var(--stripe); }
.number { text-align: right; }
"""

MANY_SECTIONS = 6
"""From so many on, a page begins with links to them."""

_NUMBER = re.compile(r"[-+−]?[\d,]*\.?\d+(e[-+]?\d+)?\s?%?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under column heads; a column that holds numbers alone is aligned to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class Widget:
    """Something in a page that is used rather than read."""

    markup: str
    """HTML that is XML too, with ids of its own."""
    style: str
    """CSS."""
    script: str
    """JavaScript, run when the page is there."""
    data: Mapping[str, str] = field(default_factory=dict)
    """JSON by the id of the element that the script finds it in."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading, then paragraphs, a widget, plots, tables and texts."""

    title: str
    notes: Sequence[str] = ()
    """Paragraphs of plain text."""
    plots: Sequence[str] = ()
    """SVG texts, as `tokenizer.measures.plots` makes them."""
    tables: Sequence[Table] = ()
    texts: Sequence[str] = ()
    """Shown as they are, line by line."""
    widget: Widget | None = None
    is_linked: bool = True
    """Whether the links at the head of a page of many sections lead to it."""


def write_page(path: str | Path, title: str, sections: Sequence[Section]) -> None:
    """Write the page, whole or not at all; raises TokenizerError for a place that cannot be written."""
    write_file(Path(path), make_page(title, sections).encode())


def make_page(title: str, sections: Sequence[Section]) -> str:
    """Make the page's text: HTML that is XML too, the same for the same content."""
    widgets = [section.widget for section in sections if section.widget]
    body = [f"<h1>{_escape(title)}</h1>"]
    is_long = len(sections) >= MANY_SECTIONS
    ids = {at: f"section{at}" for at, section in enumerate(sections) if is_long and section.is_linked}
    if ids:
        links = (f'<a href="#{name}">{_escape(sections[at].title)}</a>' for at, name in ids.items())
        body.append("<nav>" + "\n".join(links) + "</nav>")
    num_plots = 0
    for at, section in enumerate(sections):
        head = f'<section id="{ids[at]}">' if at in ids else "<section>"
        body += [head, *_content(section, num_plots), "</section>"]
        num_plots += len(section.plots)
    for widget in widgets:
        body += [_data(name, content) for name, content in widget.data.items()]
        body.append(f"<script>{_script(widget)}</script>")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{_head(title, widgets)}</head>\n'
        "<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _head(title: str, widgets: Sequence[Widget]) -> str:
    hashes = (base64.b64encode(hashlib.sha256(_script(widget).encode()).digest()).decode() for widget in widgets)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"
    style = "".join([_STYLE, *(widget.style for widget in widgets)])
    return (
        f'<meta charset="utf-8"/><meta http-equiv="Content-Security-Policy" content="{policy}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{_escape(title)}</title><style>{style}</style>"
    )


def _content(section: Section, num_plots: int) -> list[str]:
    """A section's elements; `num_plots` are above it in the page."""
    content = [f"<h2>{_escape(section.title)}</h2>", *(f"<p>{_escape(note)}</p>" for note in section.notes)]
    if section.widget:
        content.append(section.widget.markup)
    if section.plots:
        plots = [_own_ids(plot, f"plot{num_plots + index}-") for index, plot in enumerate(section.plots)]
        content.append('<div class="plots">' + "\n".join(plots) + "</div>")
    content += [_table(table) for table in section.tables]
    return content + [f"<pre>\n{_lines(text)}</pre>" for text in section.texts]


def _lines(text: str) -> str:
    """Escape a text; lines and tabs stay, whatever else cannot be seen is spelled out."""
    return "\n".join("\t".join(map(_escape, line.split("\t"))) for line in text.split("\n"))


def _script(widget: Widget) -> str:
    """What stands between the tags: text for an HTML parser, and marked as text for an XML parser."""
    if re.search(r"</script|<!--|]]>", widget.script, re.IGNORECASE):
        raise ValueError("a script must not hold </script, <!-- or ]]>, which end or change it")
    return f"//<![CDATA[\n{widget.script}\n//]]>"


def _data(name: str, content: str) -> str:
    """JSON whose text ends no element and opens none."""
    for character in "<>&":
        content = content.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{name}">{content}</script>'


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
