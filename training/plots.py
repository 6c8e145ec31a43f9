"""The picture of a run: loss and length over steps, held-out loss, and the unigram entropy."""

from pathlib import Path
from typing import Any

import numpy as np


def plot_loss(rows: list[dict[str, Any]], path: Path, *, title: str, unigram_entropy: float | None = None) -> None:
    """Draw loss.png from the rows of metrics.jsonl: written beside, then renamed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    steps = [row for row in rows if "loss" in row]
    held_out = [row for row in rows if "held_out_loss" in row]
    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    loss_axes, length_axes = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    x = np.array([row["step"] for row in steps])
    lengths = np.array([row["length"] for row in steps])
    loss_axes.scatter(
        x, [row["loss"] for row in steps], c=np.log2(lengths) if len(lengths) else [], s=6, cmap="viridis"
    )
    loss_axes.plot(
        [row["step"] for row in held_out],
        [row["held_out_loss"] for row in held_out],
        "o-",
        color="crimson",
        label="held-out",
    )
    if unigram_entropy is not None:
        loss_axes.axhline(unigram_entropy, color="gray", linestyle="--", label="unigram entropy")
    loss_axes.set(ylabel="loss (nats per token)", title=title)
    loss_axes.legend()
    length_axes.scatter(x, lengths, c=np.log2(lengths) if len(lengths) else [], s=6, cmap="viridis")
    length_axes.set_yscale("log", base=2)
    length_axes.set(xlabel="step", ylabel="length (tokens)")
    beside = path.with_name("." + path.name)
    figure.savefig(beside, dpi=120, format="png")
    beside.replace(path)
