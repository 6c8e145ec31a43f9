"""A Markdown document whose measured parts are written by benchmarks, between two comments that name each."""

from pathlib import Path

__all__ = ["write_part"]


def write_part(path: Path, name: str, text: str) -> None:
    """Replace the part called `name`, or append it (to a new document, too); the rest stays as it is.

    Raises ValueError for a part that begins and does not end.
    """
    first, last = f"<!-- measured: {name} -->\n", f"<!-- end of {name} -->\n"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, found, rest = old.partition(first)
    if not found:
        before = f"{old}\n" if old else ""
    _, ended, after = rest.partition(last)
    if found and not ended:
        raise ValueError(f"part must end with {last.strip()}, got none after {first.strip()} in {path}")
    path.write_text(f"{before}{first}\n{text.strip()}\n\n{last}{after}", encoding="utf-8")
