"""A Markdown document whose measured parts are written by benchmarks, between two comments that name each."""

from pathlib import Path

__all__ = ["write_part"]


def write_part(path: Path, name: str, text: str) -> None:
    """Replace the part called `name`, or append it (to a new document, too); the rest stays as it is."""
    first, last = f"<!-- measured: {name} -->\n", f"<!-- end of {name} -->\n"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, found, rest = old.partition(first)
    after = rest.partition(last)[2] if found else ""
    new = f"{before if found else old}{first}\n{text.strip()}\n\n{last}{after}"
    path.write_text(new, encoding="utf-8")
