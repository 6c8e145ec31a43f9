"""What is written of the results: results.json, report.md, commands.md, plots/, and a document, if one is named."""

import json
from pathlib import Path

from benchmarks.decomposition.jobs import hot_jobs, main_jobs
from benchmarks.decomposition.plots import write_plots
from benchmarks.decomposition.rates import chosen_rates
from benchmarks.decomposition.results import as_json, gather
from benchmarks.decomposition.running import commands_of
from benchmarks.decomposition.scales import Scale
from benchmarks.decomposition.tables import report
from benchmarks.publishing import publish, read_command, show_command
from tokenizer import Tokenizer
from tokenizer.output import write_file

__all__ = ["write_results"]


def write_results(scale: Scale, output: Path, document: Path | None) -> None:
    """Write, and print the report of, what is done so far."""
    rates = chosen_rates(scale, output)
    jobs, hot = list(main_jobs(scale, rates.chosen)), list(hot_jobs(scale))
    results = gather(scale, jobs, hot, output, Tokenizer.load(output / "tokenizer").vocab_size)
    text = report(scale, results, read_command(output))
    lines = [
        f"- {job.title}: " + "; ".join(f"`{show_command(each)}`" for each in commands_of(job, scale, output))
        for job in [*rates.trials, *jobs, *hot]
    ]
    write_file(output / "results.json", (json.dumps(as_json(scale, results), indent=1) + "\n").encode())
    write_file(output / "report.md", text.encode())
    write_file(output / "commands.md", ("\n".join(lines) + "\n").encode())
    plots = [path for result in results for path in write_plots(result, output / "plots")]
    if document is not None:
        publish(document, scale.name, text, plots)
    print(text, end="")
    print(f"\nwrote {output}/: results.json report.md commands.md plots/ ({len(plots)}, each as .svg and .png)")
