"""How fast a run went and in which order it took lengths, as sections of a page."""

from typing import Any

import numpy as np

from evaluation.report.curriculum_plot import MOST_COLUMNS, plot_curriculum
from evaluation.report.curves import thin
from evaluation.report.run_record import RunRecord, bucket_key, bucket_of, points
from evaluation.report.settings_table import spell_setting
from tokenizer.measures.page import Section, Table
from tokenizer.measures.plots import plot_bars, plot_lines
from training.phases import Kind

__all__ = ["curriculum_section", "speed_section", "typical_speeds"]


def curriculum_section(record: RunRecord, prefix: str) -> Section | None:
    """Which length each step took; None where no step was logged."""
    if not record.steps:
        return None
    names = record.buckets
    steps = np.array([row["step"] for row in record.steps])
    rows = np.array([names.index(bucket_of(row)) for row in record.steps])
    counts = np.bincount(rows, minlength=len(names))
    shares = {"steps": (counts[::-1] / len(rows)).tolist()}
    notes = ["Lengths of the steps in order (as in Figure 6 of Dataset Decomposition, arXiv 2405.13226)."]
    if len(steps) > MOST_COLUMNS:
        notes.append(
            f"A column is {len(steps) / MOST_COLUMNS:,.1f} logged steps: the stronger a colour, the more of them."
        )
    keys = ("curriculum", "mixture", "cycles", "odds_times", "sequences")
    told = {key: record.settings.get(f"data.{key}") for key in keys}
    if settings := ", ".join(f"{key} {spell_setting(value)}" for key, value in told.items() if value is not None):
        notes.append(f"Settings: {settings}.")
    plots = [
        plot_curriculum("Length of each step", steps, rows, names),
        plot_bars("Share of the logged steps by length", names[::-1], shares, label="share"),
    ]
    return Section(title=f"{prefix}Curriculum", notes=notes, plots=plots)


def speed_section(record: RunRecord, prefix: str) -> Section | None:
    """Throughput and MFU by length, waits for data, memory, and where the time went."""
    if not record.steps:
        return None
    names, figures = _figures(record)
    plots = []
    for key, title, label in _BARS:
        values = [figures[name].get(key) for name in names]
        if any(value is not None for value in values):
            series = {title: [np.nan if value is None else value for value in values]}
            plots.append(plot_bars(f"{title} by length", names, series, label=label))
    for key, title, label in _CURVES:
        curve = points(record.steps, "step", key)
        if len(curve[0]):
            plots.append(plot_lines(title, {title: thin(*curve)}, x_label="step", y_label=label))
    if shares := record.summary.get("shares"):
        kinds = [kind for kind in Kind if shares.get(kind.name.lower(), 0) >= _LEAST_SHARE]
        series = {"share": [shares[kind.name.lower()] for kind in kinds]}
        plots.append(plot_bars("Where the time of the last start went", [kind.name.lower() for kind in kinds], series))
    note = "By summary.json, of the last start." if record.summary else "Medians over the logged steps."
    cells = [_cells(name, figures[name]) for name in names]
    known = [at for at in range(len(_COLUMNS)) if any(row[at] is not None for row in cells)]
    rows = [[row[at] for at in known] for row in cells]
    table = Table(columns=[_COLUMNS[at] for at in known], rows=rows, caption="By length")
    return Section(title=f"{prefix}Speed", notes=[note], plots=plots, tables=[table])


_BARS = (("tokens_per_second", "Tokens a second", "tokens / s"), ("mfu", "MFU", "share of the peak"))
_CURVES = (
    ("data_wait", "Wait for data", "seconds"),
    ("device_memory_mib", "Most memory of a device so far", "MiB"),
    ("process_memory_mib", "Most memory of the process so far", "MiB"),
)
_COLUMNS = ("length", "steps", "tokens", "ms a step", "tokens a second", "MFU", "loss at the end")
_LEAST_SHARE = 0.001


def typical_speeds(record: RunRecord) -> dict[str, dict[str, Any]]:
    """By length: steps, and medians over the logged ones of tokens_per_second and mfu."""
    figures: dict[str, dict[str, Any]] = {}
    for name in record.buckets:
        rows = [row for row in record.steps if bucket_of(row) == name]
        figures[name] = {"steps": len(rows)}
        for key in ("tokens_per_second", "mfu"):
            _, values = points(rows, "step", key)
            figures[name][key] = float(np.median(values)) if len(values) else None
    return figures


def _figures(record: RunRecord) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Names of lengths in order, and their figures: from summary.json, or typical ones."""
    found = record.summary.get("buckets") or typical_speeds(record)
    return sorted(found, key=bucket_key), found


def _cells(name: str, figures: dict[str, Any]) -> tuple:
    seconds, speed, mfu = (figures.get(key) for key in ("seconds_per_step", "tokens_per_second", "mfu"))
    return (
        name,
        figures["steps"],
        figures.get("tokens"),
        None if seconds is None else f"{1000 * seconds:,.1f}",
        None if speed is None else round(speed),
        None if mfu is None else f"{mfu:.1%}",
        figures.get("late_loss"),
    )
