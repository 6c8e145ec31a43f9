"""What is written of the results: results.json, report.md, commands.md, plots/, and a document, if one is named."""

import json
from pathlib import Path

from benchmarks.publishing import publish, read_command, show_command
from benchmarks.sabpe.models import commands_of, model_jobs
from benchmarks.sabpe.plots import write_plots
from benchmarks.sabpe.results import as_json, gather
from benchmarks.sabpe.scales import Scale
from benchmarks.sabpe.tables import report
from tokenizer.output import write_file

__all__ = ["write_results"]


def write_results(scale: Scale, output: Path, document: Path | None) -> None:
    """Write, and print the report of, what is done so far."""
    results = gather(scale, output)
    text = report(scale, results, read_command(output))
    lines = [
        f"- {job.arm}, seed {job.seed}: "
        + "; ".join(f"`{show_command(each)}`" for each in commands_of(job, scale, output))
        for job in model_jobs(scale)
    ]
    write_file(output / "results.json", (json.dumps(as_json(scale, results), indent=1) + "\n").encode())
    write_file(output / "report.md", text.encode())
    write_file(output / "commands.md", ("\n".join(lines) + "\n").encode())
    plots = write_plots(scale, results, output)
    if document is not None:
        publish(document, scale.name, text, plots)
    print(text, end="")
    print(f"\nwrote {output}/: results.json report.md commands.md plots/ ({len(plots)})")
