"""Metrics of a run: metrics.jsonl, the record that resume keeps exact, and trackers beside it."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataservice import Bucket
    from training.trackers import Tracker

Row = dict[str, Any]


class MetricsLog:
    """Appends rows to RUN/metrics.jsonl, one JSON object a line with `step`, `tokens`, `seconds` and named values.

    Opened at a restored step, it first removes all rows logged after it, so that a resumed run's record is that of an
    unbroken one. Of several processes one writes; the others only keep the rows in memory. Trackers get every row too.
    """

    def __init__(self, folder: Path, *, restored_step: int, writes: bool = True, trackers: Sequence["Tracker"] = ()):
        self.folder = folder
        self._path = folder / "metrics.jsonl"
        self._file = None
        self._trackers = trackers
        self.rows = [row for row in read_rows(self._path) if row["step"] <= restored_step and "finished" not in row]
        if not writes:
            return
        _replace_rows(self._path, self.rows)
        self._file = self._path.open("a", encoding="utf-8", buffering=1)  # a line at once, for who watches

    @property
    def seconds(self) -> float:
        """Seconds of training up to the last row."""
        return self.rows[-1]["seconds"] if self.rows else 0.0

    def evaluated(self, step: int) -> bool:
        """Whether there is a row of an evaluation at this step."""
        return any(row["step"] == step and "held_out_loss" in row for row in self.rows)

    def write(self, row: Row) -> None:
        """Append one row; durable after the next `flush`."""
        self.rows.append(row)
        if self._file is None:
            return
        self._file.write(json.dumps(row) + "\n")
        for tracker in self._trackers:
            tracker.log(row)

    def flush(self) -> None:
        """Make every row durable: called before a checkpoint, which must never be newer than its metrics."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
        for tracker in self._trackers:
            tracker.flush()

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        if self._file is not None:
            self._file.close()
        for tracker in self._trackers:
            tracker.close()


def bucket_name(bucket: "Bucket") -> str:
    """The length of a bucket; with a p the bucket of packed tails."""
    return f"{bucket.length}{'p' if bucket.packed else ''}"


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a metrics.jsonl; a last line cut short by a kill is left out."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def _replace_rows(path: Path, rows: list[Row]) -> None:
    beside = path.with_suffix(".jsonl.tmp")
    with beside.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
