"""Several runs on the same axes, and what each takes to reach what the first one ends with."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evaluation.report.curves import choose_clock, plot_curves
from evaluation.report.metric_rows import bucket_key, points
from evaluation.report.run_record import RunRecord
from evaluation.report.run_sections import POSITION, losses_by_position, text_of_time
from evaluation.report.run_speed import typical_speeds
from evaluation.report.settings_table import differing_settings
from tokenizer.measures.page import Cell, Section, Table
from tokenizer.measures.plots import plot_bars

__all__ = ["Reach", "comparison_sections", "first_reach", "reach_of"]


class Reach(NamedTuple):
    """What a run took to reach a held-out loss; None where it never did."""

    tokens: float | None
    seconds: float | None


def comparison_sections(records: Sequence[RunRecord]) -> list[Section]:
    """Curves on one axis, tables side by side, and the settings in which the runs differ."""
    first = records[0].fingerprint
    is_one_vocabulary = first is not None and all(record.fingerprint == first for record in records)
    measure, label = _LOSS if is_one_vocabulary else _BITS
    notes = [_TARGET_NOTE]
    if not is_one_vocabulary:
        notes.insert(0, "The tokenizers differ, or are not known: losses a token do not compare, bits per byte do.")
    settings = differing_settings([record.settings for record in records])
    kinds = {record.settings.get("train.evaluate_sequences") for record in records}
    # Runs that were told to evaluate on one kind do, whatever they train on.
    alike = "data.sequences" if len(kinds) == 1 and None not in kinds else None
    if held_out := [key for key, *_ in settings if key.startswith(_HELD_OUT) and key != alike]:
        notes.append(f"Their held-out sequences may differ, as these settings do: {', '.join(held_out)}.")
    plots, table = _curves(records, measure, label), _table(records, measure, label)
    sections = [
        Section(title="Comparison", notes=notes, plots=plots, tables=[table]),
        Section(title="Comparison by position and length", plots=[*filter(None, _details(records))]),
    ]
    if settings:
        table = Table(columns=("setting", *(record.name for record in records)), rows=settings)
        sections.append(Section(title="Settings that differ", tables=[table]))
    return sections


_LOSS = ("held_out_loss", "held-out loss, nats a token")
_BITS = ("held_out_bits_per_byte", "held-out bits per byte")
_HELD_OUT = (
    "corpus.",
    "data.store",
    "data.sequences",
    "data.min_length",
    "data.max_length",
    "data.tails",
    "train.evaluate_batches",
    "train.evaluate_sequences",
)
_TARGET_NOTE = (
    "Tokens and time to the first run's end: where a run first reaches what the first one has at its last evaluation, "
    "on a straight line between evaluations; in brackets, their share of what the first one took in all. Times compare "
    "on the same machine alone."
)


def reach_of(record: RunRecord, key: str, target: float) -> Reach:
    """Tokens and seconds at which a run's held-out `key` first is at most `target`."""
    return Reach(*(first_reach(*points(record.evaluations, x, key), target) for x in ("tokens", "seconds")))


def first_reach(x: np.ndarray, y: np.ndarray, target: float) -> float | None:
    """The x at which a curve first comes down to `target`, on a straight line between its points; None for never.

    >>> first_reach(np.array([1.0, 3.0]), np.array([4.0, 2.0]), 3.0)
    2.0
    """
    reached = np.flatnonzero(y <= target)
    if not len(reached):
        return None
    at = int(reached[0])
    if at == 0:
        return float(x[0])
    share = (y[at - 1] - target) / (y[at - 1] - y[at])
    return float(x[at - 1] + share * (x[at] - x[at - 1]))


def _table(records: Sequence[RunRecord], key: str, label: str) -> Table:
    columns = ("run", label, "less than the first", "tokens to the first's end", "time to the first's end")
    columns += ("bits per byte", "steps", "tokens", "time", "tokens / s")
    return Table(columns=columns, rows=[_row(record, records[0], key) for record in records])


def _row(record: RunRecord, first: RunRecord, key: str) -> tuple[Cell, ...]:
    last, final = record.last, _final(record, key)
    target = _final(first, key)
    reach = Reach(None, None) if target is None else reach_of(record, key, target)
    # All that the first one took up to its last evaluation.
    whole = first.evaluations[-1] if first.evaluations else {"tokens": 0, "seconds": 0}
    tokens = None if reach.tokens is None else f"{reach.tokens:,.0f}"
    seconds = None if reach.seconds is None else text_of_time(reach.seconds)
    return (
        record.name,
        _digits(final),
        None if final is None or target is None or record is first else f"{target - final:+.4f}",
        _with_ratio(tokens, reach.tokens, whole["tokens"]),
        _with_ratio(seconds, reach.seconds, whole["seconds"]),
        _digits(_final(record, "held_out_bits_per_byte")),
        last.get("step"),
        last.get("tokens"),
        text_of_time(last["seconds"]) if last else None,
        round(last["tokens"] / last["seconds"]) if last.get("seconds") else None,
    )


def _final(record: RunRecord, key: str) -> float | None:
    return record.evaluations[-1].get(key) if record.evaluations else None


def _digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _with_ratio(shown: str | None, value: float | None, whole: float) -> str | None:
    return shown if value is None or not whole else f"{shown} ({value / whole:.2f}x)"


def _curves(records: Sequence[RunRecord], key: str, label: str) -> list[str]:
    """Held-out and training losses of all runs, over tokens and over time."""
    clock = choose_clock(max(record.last.get("seconds", 0.0) for record in records))
    plots = []
    for x, scale, x_label in (("tokens", 1.0, "tokens"), ("seconds", clock.seconds, clock.label)):
        for name, y_label, kind in ((key, label, "Held-out"), ("loss", "training loss, nats a token", "Training")):
            series = {}
            for record in records:
                places, values = points(record.evaluations if kind == "Held-out" else record.steps, x, name)
                series[record.name] = places / scale, values
            title = f"{kind} loss over {'tokens' if x == 'tokens' else 'time'}"
            plots.append(plot_curves(title, series, x_label, y_label, has_marks=kind == "Held-out"))
    return [*filter(None, plots)]


def _details(records: Sequence[RunRecord]) -> list[str]:
    last = {record.name: record.evaluations[-1] if record.evaluations else {} for record in records}
    positions = {name: losses_by_position(row) for name, row in last.items()}
    title = "Held-out loss by position, at the end"
    plots = [plot_curves(title, positions, POSITION, "nats a token", log="x", has_marks=True)]
    speeds = {record.name: typical_speeds(record) for record in records}
    lengths = sorted({length for speed in speeds.values() for length in speed}, key=bucket_key)
    if lengths:
        bars = {
            name: [speed.get(length, {}).get("tokens_per_second") or np.nan for length in lengths]
            for name, speed in speeds.items()
        }
        plots.append(plot_bars("Tokens a second by length (median logged step)", lengths, bars, label="tokens / s"))
    return plots
