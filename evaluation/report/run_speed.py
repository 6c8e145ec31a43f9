"""How fast a run went and in which order it took lengths, as sections of a page."""

from typing import Any

import numpy as np

from evaluation.report.curriculum_plot import MOST_COLUMNS, plot_curriculum
from evaluation.report.curves import thin
from evaluation.report.metric_rows import bucket_key, bucket_of, points
from evaluation.report.run_record import RunRecord
from evaluation.report.settings_table import spell_setting
from tokenizer.measures.page import Section, Table
from tokenizer.measures.plots import plot_bars, plot_lines
from training.phases import Kind

__all__ = ["curriculum_section", "speed_section", "typical_speeds"]


def curriculum_section(record: RunRecord, prefix: str) -> Section | None:
    """Which length each step took; None where no step was logged."""
    if record.curriculum is None:
        return None
    names, steps, rows, is_whole = record.curriculum
    kind = "steps" if is_whole else "logged steps"
    shares = {kind: (np.bincount(rows, minlength=len(names))[::-1] / len(rows)).tolist()}
    notes = [f"Lengths of the {kind} in order (as in Figure 6 of Dataset Decomposition, arXiv 2405.13226)."]
    if not is_whole:
        notes.append("The steps between are not shown: the store that tells their lengths is not at hand.")
    if len(steps) > MOST_COLUMNS:
        notes.append(f"A column is {len(steps) / MOST_COLUMNS:,.1f} {kind}: the stronger a colour, the more of them.")
    keys = ("curriculum", "mixture", "cycles", "odds_times", "sequences")
    told = {key: record.settings.get(f"data.{key}") for key in keys}
    if settings := ", ".join(f"{key} {spell_setting(value)}" for key, value in told.items() if value is not None):
        notes.append(f"Settings: {settings}.")
    plots = [
        plot_curriculum(f"Length of each {kind.removesuffix('s')}", steps, rows, names),
        plot_bars(f"Share of the {kind} by length", names[::-1], shares, label="share"),
    ]
    return Section(title=f"{prefix}Curriculum", notes=notes, plots=plots)


def speed_section(record: RunRecord, prefix: str) -> Section | None:
    """Throughput and MFU by length, waits for data, memory, and where the time went."""
    if not record.steps:
        return None
    whole = None if record.summarized else record.summary.get("buckets")
    figures = whole or typical_speeds(record)
    plots = _bars(figures, "" if whole else " (median logged step)")
    for key, title, label in _CURVES:
        curve = points(record.steps, "step", key)
        if len(curve[0]):
            plots.append(plot_lines(title, {title: thin(*curve)}, x_label="step", y_label=label))
    if shares := record.summary.get("shares"):
        kinds = [kind for kind in Kind if shares.get(kind.name.lower(), 0) >= _LEAST_SHARE]
        series = {"share": [shares[kind.name.lower()] for kind in kinds]}
        title = f"Where the time of the last start went{_of(record)}"
        plots.append(plot_bars(title, [kind.name.lower() for kind in kinds], series))
    notes = ["By length, all steps." if whole else "By length, medians over the logged steps of all starts."]
    tables = [_table(figures, "By length, all steps" if whole else "By length, logged steps", is_logged=not whole)]
    if not whole and (last := record.summary.get("buckets")):
        notes.append(f"summary.json is about {record.summarized}, those of the last start that came to its end.")
        tables.append(_table(last, f"By length{_of(record)}", is_logged=False))
    return Section(title=f"{prefix}Speed", notes=notes, plots=plots, tables=tables)


def _of(record: RunRecord) -> str:
    """What a title says where summary.json is not about all steps."""
    return f", {record.summarized}" if record.summarized else ""


def _bars(figures: dict[str, dict[str, Any]], how: str) -> list[str]:
    names, plots = sorted(figures, key=bucket_key), []
    for key, title, label in _BARS:
        values = [figures[name].get(key) for name in names]
        if any(value is not None for value in values):
            series = {title: [np.nan if value is None else value for value in values]}
            plots.append(plot_bars(f"{title} by length{how}", names, series, label=label))
    return plots


def _table(figures: dict[str, dict[str, Any]], caption: str, *, is_logged: bool) -> Table:
    columns = ("length", "logged steps" if is_logged else "steps", *_COLUMNS)
    cells = [_cells(name, figures[name]) for name in sorted(figures, key=bucket_key)]
    known = [at for at in range(len(columns)) if any(row[at] is not None for row in cells)]
    rows = [[row[at] for at in known] for row in cells]
    return Table(columns=[columns[at] for at in known], rows=rows, caption=caption)


_BARS = (("tokens_per_second", "Tokens a second", "tokens / s"), ("mfu", "MFU", "share of the peak"))
_CURVES = (
    ("data_wait", "Wait for data", "seconds"),
    ("device_memory_mib", "Most memory of a device so far", "MiB"),
    ("process_memory_mib", "Most memory of the process so far", "MiB"),
)
_COLUMNS = ("tokens", "ms a step", "tokens a second", "MFU", "loss at the end")
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
