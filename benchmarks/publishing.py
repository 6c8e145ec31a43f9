"""A report in a document: a part of its own, its plots in a folder beside it, and commands as people type them."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.document import write_part
from benchmarks.processes import ROOT
from tokenizer.output import write_file

__all__ = ["note_command", "publish", "read_command", "show_command"]

_COMMAND = "command.txt"


def publish(document: Path, size: str, text: str, plots: Sequence[Path]) -> None:
    """Put the report into a part of a document, and the plots into a folder beside it."""
    folder = document.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for path in plots:
        write_file(folder / path.name, path.read_bytes())
    pictures = [f"![{path.stem}]({folder.name}/{path.name})" for path in plots]
    # The title is that of the document.
    body = text.partition("\n")[2].replace("\n## ", "\n### ").strip()
    write_part(document, f"{size} sizes", "\n\n".join([f"## At {size} sizes", body, *pictures]))


def note_command(module: str, output: Path) -> None:
    """Keep the command line of this process, which everything is made by, for reports."""
    text = shlex.join(["python", "-m", module, *sys.argv[1:]])
    write_file(output / _COMMAND, f"{text}\n".encode())


def read_command(output: Path) -> str:
    """What `note_command` kept."""
    return (output / _COMMAND).read_text(encoding="utf-8").strip()


def show_command(words: Sequence[str]) -> str:
    """A command as it is typed in the root of the repository."""
    shown = [word.replace(f"{ROOT}/", "").replace(f"{Path.cwd()}/", "") for word in words]
    return shlex.join(["python", *shown[1:]])
