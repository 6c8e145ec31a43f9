"""A run as sections of a page: what it is, its losses, what went wrong, what it writes."""

from collections.abc import Sequence

import numpy as np

from evaluation.report.curves import MOST_POINTS, Curve, choose_clock, plot_curves
from evaluation.report.metric_rows import bucket_key, bucket_of, points
from evaluation.report.run_record import RunRecord
from evaluation.report.settings_table import count_parameters, settings_table
from tokenizer.measures.page import Cell, Section, Table
from training.metrics import Row

__all__ = [
    "POSITION",
    "event_sections",
    "held_out_section",
    "loss_section",
    "overview_section",
    "sample_sections",
    "text_of_time",
]

MOST_OF_LENGTH = 50  # points of a curve among many that cross
MOST_EVENTS = 100
MOST_SHOWN_EVALUATIONS = 4


def overview_section(record: RunRecord, prefix: str) -> Section:
    """What the run is and how far it came, in a table; what is missing, in words."""
    last, overall = record.last, record.summary.get("overall") or {}
    final = record.evaluations[-1] if record.evaluations else {}
    memory = [row[name] for row in record.steps for name in _MEMORY if name in row]
    since = f", {record.summarized}" if record.summarized else ""
    facts: list[tuple[str, Cell]] = [
        ("parameters", count_parameters(record.settings, record.vocab_size)),
        ("steps", last.get("step")),
        ("tokens trained on", last.get("tokens")),
        ("time of training", text_of_time(last["seconds"]) if last else None),
        ("held-out loss at the end, nats a token", final.get("held_out_loss")),
        ("held-out bits per byte at the end", final.get("held_out_bits_per_byte")),
        ("unigram entropy of held-out tokens, nats", record.closing.get("unigram_entropy")),
        ("tokens a second", round(last["tokens"] / last["seconds"]) if last.get("seconds") else None),
        (f"MFU{since}", _percent(overall.get("mfu"))),
        (f"share of steps spent waiting for data{since}", _percent(overall.get("data_wait_share_of_steps"))),
        ("most memory, MiB", round(max(memory)) if memory else None),
        ("steps with a spike", sum("spike" in row for row in record.steps)),
        ("steps skipped as not finite", sum("skipped" in row for row in record.steps)),
    ]
    table = Table(columns=("", "value"), rows=[(name, _shown(value)) for name, value in facts if value is not None])
    return Section(title=f"{prefix}Run", notes=record.notes, tables=[table])


def settings_sections(record: RunRecord, prefix: str) -> list[Section]:
    """The settings that are not the defaults."""
    tables = settings_table(record.settings)
    return [Section(title=f"{prefix}Settings", tables=tables)] if tables else []


_MEMORY = ("device_memory_mib", "process_memory_mib")


def loss_section(record: RunRecord, prefix: str) -> Section | None:
    """Loss over tokens and over time, and that of training by length; None where no step was logged."""
    if not record.steps:
        return None
    clock = choose_clock(record.last.get("seconds", 0.0))
    by_tokens, by_time = _losses(record, "tokens", 1.0), _losses(record, "seconds", clock.seconds)
    lengths = {name: points(_of(record.steps, name), "tokens", "loss") for name in record.buckets}
    plots = [
        plot_curves("Loss over tokens", by_tokens, "tokens", _NATS),
        plot_curves("Loss over time", by_time, clock.label, _NATS),
        plot_curves("Training loss by length", lengths, "tokens", _NATS, most=MOST_OF_LENGTH, is_ordered=True),
    ]
    notes = [_LOSS_NOTE]
    if len(record.steps) > MOST_OF_LENGTH:
        notes.append(
            f"Of {len(record.steps):,} rows, curves show means over at most {MOST_POINTS} stretches, those by length "
            f"over at most {MOST_OF_LENGTH}."
        )
    return Section(title=f"{prefix}Loss", notes=notes, plots=[*filter(None, plots)])


_NATS = "nats a token"
_LOSS_NOTE = (
    "Training loss is that of each step's own length: with a curriculum it moves with the mixture of lengths, which "
    "held-out loss does not."
)


def held_out_section(record: RunRecord, prefix: str) -> Section | None:
    """Held-out loss by length of rows, and by position within a sequence; None without an evaluation."""
    if not record.evaluations:
        return None
    buckets = sorted(_names_after(record.evaluations, "held_out_loss_"), key=bucket_key)
    by_length = {name: points(record.evaluations, "tokens", f"held_out_loss_{name}") for name in buckets}
    chosen = np.unique(np.linspace(0, len(record.evaluations) - 1, MOST_SHOWN_EVALUATIONS).round()).astype(int)
    by_position = {
        f"step {row['step']:,}": curve
        for row in (record.evaluations[at] for at in chosen)
        if len((curve := losses_by_position(row))[0])
    }
    plots = [
        plot_curves("Held-out loss by length", by_length, "tokens", _NATS, is_ordered=True, has_marks=True),
        plot_curves(
            "Held-out loss by position", by_position, POSITION, _NATS, log="x", is_ordered=True, has_marks=True
        ),
    ]
    final = record.evaluations[-1]
    rows = [(name, final.get(f"held_out_loss_{name}")) for name in buckets]
    caption = f"Held-out loss by length at step {final['step']:,}, nats a token"
    table = [Table(columns=("length", "loss"), rows=rows, caption=caption)] if rows else []
    return Section(title=f"{prefix}Held-out loss", notes=[_HELD_OUT_NOTE], plots=[*filter(None, plots)], tables=table)


POSITION = "position within the sequence, from 1"
_HELD_OUT_NOTE = (
    "A length with a p is that of rows of packed tails. Losses by position are means over stretches that begin at "
    "1, 2, 3, 5, 9, ... and end before the next; a model that makes use of context has a lower loss at later positions."
)


def losses_by_position(row: Row) -> Curve:
    """(first position from 1, loss) of the stretches of an evaluation."""
    starts = sorted(int(name) for name in _names_after([row], "held_out_loss_at_"))
    return np.array(starts, float) + 1, np.array([row[f"held_out_loss_at_{start}"] for start in starts])


def event_sections(record: RunRecord, prefix: str) -> list[Section]:
    """Steps that spiked or were skipped, and how the optimizer went; nothing where no step was logged."""
    if not record.steps:
        return []
    names = (("gradient_norm", "Gradient norm"), ("learning_rate", "Learning rate"))
    curves = {title: {title.lower(): points(record.steps, "step", name)} for name, title in names}
    plots = [plot_curves(title, series, "step", "") for title, series in curves.items()]
    rows = [row for row in record.steps if "spike" in row or "skipped" in row]
    if not rows:
        notes, tables = ["No step spiked, and none was skipped, of those that were logged."], []
    else:
        more = f"; the first {MOST_EVENTS} of {len(rows):,}" if len(rows) > MOST_EVENTS else ""
        columns = ("step", "length", "event", "loss", "gradient norm")
        lines = [_event_cells(row) for row in rows[:MOST_EVENTS]]
        notes = ["A spike is a loss or gradient norm far above what is usual for its length."]
        tables = [Table(columns=columns, rows=lines, caption=f"Spikes and skipped steps{more}")]
    return [Section(title=f"{prefix}Stability", notes=notes, plots=[*filter(None, plots)], tables=tables)]


def _event_cells(row: Row) -> tuple[Cell, ...]:
    kind = "skipped: not finite" if "skipped" in row else "spike"
    return row["step"], bucket_of(row), kind, row.get("loss"), row.get("gradient_norm")


def sample_sections(record: RunRecord, prefix: str) -> list[Section]:
    """What the model wrote at the end, if it was asked to."""
    sample = record.closing.get("sample")
    if not isinstance(sample, str):
        return []
    prompt = record.settings.get("train.sample_prompt")
    note = f"What the model went on with after {prompt!r}, prompt first." if prompt else "What the model wrote."
    return [Section(title=f"{prefix}Sample", notes=[note], texts=[sample])]


def text_of_time(seconds: float) -> str:
    """Spell a time briefly.

    >>> text_of_time(7.25), text_of_time(400), text_of_time(8000)
    ('7.2 s', '6.7 min', '2.2 h')
    """
    clock = choose_clock(seconds)
    unit = {1.0: "s", 60.0: "min", 3600.0: "h"}[clock.seconds]
    return f"{seconds / clock.seconds:.1f} {unit}"


def _losses(record: RunRecord, x: str, scale: float) -> dict[str, Curve]:
    """Losses over tokens or seconds, which are divided by `scale`, and the entropy that a model must beat."""
    training, held_out = points(record.steps, x, "loss"), points(record.evaluations, x, "held_out_loss")
    series = {"training": training, "held-out": held_out}
    entropy = record.closing.get("unigram_entropy")
    if isinstance(entropy, float) and len(training[0]):
        series["unigram entropy"] = training[0][[0, -1]], np.array([entropy, entropy])
    return {name: (curve[0] / scale, curve[1]) for name, curve in series.items() if len(curve[0])}


def _of(rows: Sequence[Row], bucket: str) -> list[Row]:
    return [row for row in rows if bucket_of(row) == bucket]


def _names_after(rows: Sequence[Row], prefix: str) -> set[str]:
    """What follows a prefix in the names of rows, where it begins with a digit."""
    names = {name.removeprefix(prefix) for row in rows for name in row if name.startswith(prefix)}
    return {name for name in names if name[:1].isdigit()}


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"


def _shown(value: Cell) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
