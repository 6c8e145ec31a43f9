"""What is written of the results: results.json, report.md, commands.md, plots/, and a document, if one is named."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.document import write_part
from benchmarks.processes import ROOT
from benchmarks.sabpe.models import commands_of, model_jobs
from benchmarks.sabpe.plots import write_plots
from benchmarks.sabpe.results import as_json, gather
from benchmarks.sabpe.scales import Scale
from benchmarks.sabpe.tables import report
from tokenizer.output import write_file

__all__ = ["note_command", "write_results"]

COMMAND = "command.txt"


def note_command(output: Path) -> None:
    """Keep the command line that everything is made by, for reports."""
    text = shlex.join(["python", "-m", "benchmarks.reproduce_sabpe", *sys.argv[1:]])
    write_file(output / COMMAND, f"{text}\n".encode())


def write_results(scale: Scale, output: Path, document: Path | None) -> None:
    """Write, and print the report of, what is done so far."""
    results = gather(scale, output)
    text = report(scale, results, (output / COMMAND).read_text(encoding="utf-8").strip())
    lines = [
        f"- {job.arm}, seed {job.seed}: " + "; ".join(f"`{_show(each)}`" for each in commands_of(job, scale, output))
        for job in model_jobs(scale)
    ]
    write_file(output / "results.json", (json.dumps(as_json(scale, results), indent=1) + "\n").encode())
    write_file(output / "report.md", text.encode())
    write_file(output / "commands.md", ("\n".join(lines) + "\n").encode())
    plots = write_plots(scale, results, output)
    if document is not None:
        publish(document, scale, text, plots)
    print(text, end="")
    print(f"\nwrote {output}/: results.json report.md commands.md plots/ ({len(plots)})")


def publish(document: Path, scale: Scale, text: str, plots: Sequence[Path]) -> None:
    """Put the report into a part of a document, and the plots into a folder beside it."""
    folder = document.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for path in plots:
        write_file(folder / path.name, path.read_bytes())
    pictures = [f"![{path.stem}]({folder.name}/{path.name})" for path in plots]
    # The title is that of the document.
    body = text.partition("\n")[2].replace("\n## ", "\n### ").strip()
    write_part(document, f"{scale.name} sizes", "\n\n".join([f"## At {scale.name} sizes", body, *pictures]))


def _show(words: Sequence[str]) -> str:
    """A command as it is typed in the root of the repository."""
    shown = [word.replace(f"{ROOT}/", "").replace(f"{Path.cwd()}/", "") for word in words]
    return shlex.join(["python", *shown[1:]])
