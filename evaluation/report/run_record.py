"""What a run's folder tells of it: whatever is there, and in words what is not."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from evaluation.report.curriculum import Curriculum, read_curriculum
from evaluation.report.metric_rows import bucket_key, bucket_of, is_number
from tokenizer import Tokenizer, TokenizerError
from training.metrics import Row, read_rows

__all__ = ["RunRecord", "is_run_folder", "read_run"]

CONFIG, METRICS, SUMMARY = "config.yaml", "metrics.jsonl", "summary.json"


class RunRecord(NamedTuple):
    """A run, finished or not."""

    name: str
    settings: dict[str, Any]
    """By dotted key, as config.yaml has them; empty where there is none."""
    steps: list[Row]
    """Rows of steps: those logged, in order."""
    evaluations: list[Row]
    """Rows of held-out evaluations."""
    closing: Row
    """The row that marks the run as finished, or an empty one."""
    summary: dict[str, Any]
    """summary.json, of the last start; or empty."""
    fingerprint: str | None
    """Of the tokenizer; None where it is not known."""
    vocab_size: int | None
    """Its tokens, likewise."""
    curriculum: Curriculum | None
    """Which length steps took; None where none was logged."""
    notes: list[str]
    """What is missing or damaged, a sentence each."""

    @property
    def last(self) -> Row:
        """The last row that says how far the run came, or an empty one."""
        rows = [*self.steps[-1:], *self.evaluations[-1:], *([self.closing] if self.closing else [])]
        return max(rows, key=lambda row: row["step"], default={})

    @property
    def summarized(self) -> str | None:
        """The steps that summary.json is about, in words; None where these are all, or there is none."""
        first, last = (self.summary.get(key) for key in ("first_step", "last_step"))
        if not self.summary or (first == 1 and last == self.last.get("step")):
            return None
        return "no step" if first is None or last is None else f"steps {first:,} to {last:,} alone"

    @property
    def buckets(self) -> list[str]:
        """Lengths of rows, the shortest first; with a p those of packed tails."""
        return sorted({bucket_of(row) for row in self.steps}, key=bucket_key)


def is_run_folder(place: Path) -> bool:
    """Whether a folder is that of a run, perhaps of one that did not come far."""
    return (place / METRICS).is_file() or ((place / CONFIG).is_file() and (place / "tokenizer").is_dir())


def read_run(place: Path, name: str) -> RunRecord:
    """Read what is there of a run; nothing in it is trusted to be whole."""
    notes: list[str] = []
    settings = _read_settings(place / CONFIG, notes)
    rows = _read_metrics(place / METRICS, notes)
    steps = [row for row in rows if "length" in row]
    evaluations = [row for row in rows if "held_out_loss" in row and "finished" not in row]
    closing = next((row for row in reversed(rows) if "finished" in row), {})
    summary = _read_json(place / SUMMARY)
    if not summary:
        notes.append(f"There is no {SUMMARY}, which a run writes when it ends: speeds are medians over logged steps.")
    tokenizer = _open_tokenizer(place / "tokenizer", notes)
    fingerprint, vocab_size = (tokenizer.fingerprint, tokenizer.vocab_size) if tokenizer else (None, None)
    _note_replaced(place, fingerprint, notes)
    parts = (settings, steps, evaluations, closing, summary, fingerprint, vocab_size)
    record = RunRecord(name, *parts, curriculum=None, notes=notes)
    _note_progress(record)
    if not steps:
        return record
    return record._replace(curriculum=read_curriculum(place, steps, record.last["step"], tokenizer))


def _read_settings(path: Path, notes: list[str]) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        notes.append(f"There is no {CONFIG} that can be read: settings are not shown.")
        return {}
    return _flatten(content) if isinstance(content, dict) else {}


def _flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        is_section = isinstance(value, dict) and not prefix
        flat |= _flatten(value, f"{key}.") if is_section else {f"{prefix}{key}": value}
    return flat


def _read_metrics(path: Path, notes: list[str]) -> list[Row]:
    try:
        rows = list(read_rows(path))
        num_lines = len(path.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        notes.append(f"There is no {METRICS} that can be read: the run has taken no step, or it was not copied whole.")
        return []
    left_out = num_lines - len(rows)
    if left_out == 1:
        notes.append(f"The last line of {METRICS} was cut short and is left out.")
    elif left_out:
        notes.append(f"{METRICS} is damaged in line {len(rows) + 1}: it and what follows are left out.")
    return [row for row in rows if isinstance(row, dict) and all(map(is_number, map(row.get, _EVERY_ROW)))]


_EVERY_ROW = ("step", "tokens", "seconds")


def _note_progress(record: RunRecord) -> None:
    if not record.steps:
        record.notes.append("No step was logged: there are no curves.")
        return
    wanted = record.settings.get("train.num_steps")
    if not record.closing:
        of = f" of {wanted:,}" if isinstance(wanted, int) else ""
        record.notes.append(f"The run is not finished: its last row is of step {record.last['step']:,}{of}.")
    if not record.evaluations:
        record.notes.append("There was no held-out evaluation.")
    every = record.settings.get("train.log_every")
    if isinstance(every, int) and every > 1:
        record.notes.append(f"A row was logged every {every:,} steps: curves show these steps.")


def _note_replaced(place: Path, fingerprint: str | None, notes: list[str]) -> None:
    """Checkpoints say by which tokenizer they were trained."""
    positions = [path for path in place.glob("checkpoints/*/position/metadata") if path.parts[-3].isdigit()]
    newest = max(positions, key=lambda path: int(path.parts[-3]), default=None)
    trained = None if newest is None else _read_json(newest).get("tokenizer")
    if None not in (fingerprint, trained) and fingerprint != trained:
        notes.append("tokenizer/ is not that of the checkpoints: it was replaced, and the model is of no use with it.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _open_tokenizer(place: Path, notes: list[str]) -> Tokenizer | None:
    try:
        return Tokenizer.load(place)
    except TokenizerError as error:
        notes.append(f"The run's tokenizer cannot be opened: {error}.")
        return None
