"""Held-out loss of every checkpoint of a run.

    python -m benchmarks.decomposition.held_out RUN --sequences FILE --window N

The same documents for every arm, each token of each predicted once, from the document's own start: never across
documents, so no way of making rows is asked for what it was not trained on. A token sees the document up to a window of
the longest rows that the arm was trained on, moved by half of itself where a document is longer: the control that was
trained on shorter rows is used as well as it can be, and is not asked for positions that it has never seen.

Results are appended to RUN/held_out.jsonl, a line a checkpoint; run again, it scores what is missing. When the last
checkpoint is scored the others are removed.
"""

import argparse
import json
import math
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decomposition.documents import read_held_out

__all__ = ["RESULTS", "is_evaluated", "longest_seen", "position_sums", "read_results"]

RESULTS = "held_out.jsonl"
LEAST_SHARE = 50


def position_sums(nll: list[np.ndarray]) -> list[list[float]]:
    """[start, nats, tokens] of the tokens at positions 0, 1, 2-3, 4-7, ... of documents.

    >>> position_sums([np.array([3.0, 2.0, 1.0])])
    [[0, 3.0, 1], [1, 2.0, 1], [2, 1.0, 1]]
    """
    longest = max(len(part) for part in nll)
    starts = [0, *(1 << power for power in range((longest - 1).bit_length()))]
    edges = [*starts[1:], longest]
    return [
        [
            start,
            float(sum(part[start:end].sum(dtype=np.float64) for part in nll)),
            sum(len(part[start:end]) for part in nll),
        ]
        for start, end in zip(starts, edges, strict=True)
    ]


def read_results(run: Path) -> list[dict[str, Any]]:
    """Rows of RUN/held_out.jsonl by ascending `step`: `loss` (nats per token; None if not finite) and `positions`."""
    from training.metrics import read_rows

    return list(read_rows(run / RESULTS))


def is_evaluated(run: Path, last_step: int) -> bool:
    """Whether the last checkpoint of a finished run has been scored, which is done after all others."""
    return any(row["step"] == last_step for row in read_results(run))


def longest_seen(lengths: Sequence[int]) -> int:
    """Tokens of the longest rows of which a run has learnt: of those at least one in LEAST_SHARE of its steps.

    lengths: of the rows of each step. Of lengths that a run may have, some have no rows, or a handful.
    """
    return max(length for length, steps in Counter(lengths).items() if LEAST_SHARE * steps >= len(lengths))


def evaluate_run(run: Path, sequences: list[np.ndarray], window: int) -> None:
    """Score what is missing, in the order of steps, in windows of the longest rows seen but at most `window`."""
    from tokenizer import show_progress
    from training.checkpoint_folder import checkpoint_folder, committed_steps
    from training.config import load_config
    from training.devices import keep_large_buffers, use_compilation_cache
    from training.metrics import read_rows
    from training.run import Run

    keep_large_buffers()
    use_compilation_cache()
    place = checkpoint_folder(Run(run), load_config([str(run / "config.yaml")]).train)
    seen = [row["length"] for row in read_rows(run / "metrics.jsonl") if "length" in row]
    window = min(window, longest_seen(seen))
    rows = read_results(run)
    steps = [step for step in committed_steps(place) if step not in {row["step"] for row in rows}]
    with show_progress() as progress:
        for done, step in enumerate(steps):
            progress("checkpoints", done, len(steps))
            row = {"step": step, "window": window, **_score(run, step, sequences, window)}
            _append(run / RESULTS, row)
    if rows or steps:
        for step in committed_steps(place)[:-1]:
            shutil.rmtree(place / str(step))


def _score(run: Path, step: int, sequences: list[np.ndarray], window: int) -> dict[str, Any]:
    from evaluation import open_subject
    from evaluation.windows import score_in_windows

    subject = open_subject(run, step=step)
    (log_probs,) = score_in_windows(subject, sequences, [(window, max(1, window // 2))])
    nll = [-part for part in log_probs]
    total = sum(part.sum(dtype=np.float64) for part in nll)
    loss = float(total / sum(map(len, nll)))
    return {"loss": loss if math.isfinite(loss) else None, "positions": position_sums(nll)}


def _append(path: Path, row: dict[str, Any]) -> None:
    """Add a line; one that a kill has cut short is replaced."""
    from training.metrics import read_rows

    rows = [*read_rows(path), row]
    beside = path.with_suffix(".tmp")
    beside.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    beside.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--sequences", type=Path, required=True, help="held-out sequences, .npz")
    parser.add_argument("--window", type=int, required=True, help="most tokens that the model sees at once")
    options = parser.parse_args()
    evaluate_run(options.run, read_held_out(options.sequences), options.window)


if __name__ == "__main__":
    main()
