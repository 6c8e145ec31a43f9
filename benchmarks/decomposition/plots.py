"""Plots as SVG and PNG: loss against tokens and time, step time by length, loss by position, loss by row length."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.decomposition.arms import SINGLE
from benchmarks.decomposition.curves import Curve
from benchmarks.decomposition.results import ArmResult, SettingResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_plots"]

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "decomposition",
    "svg.fonttype": "path",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.2,
    "legend.frameon": False,
}
COLOURS = "tab10"
LATEST_SHARE = 0.75
"""The first evaluations are so much higher that all arms would lie on one another beside them."""


def write_plots(result: SettingResult, folder: Path) -> list[Path]:
    """Write the plots of a setting to FOLDER/SETTING-NAME.svg and .png; returns the SVG files."""
    if not result.arms:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    paints: dict[str, Callable[[Axes], None]] = {
        "tokens": lambda axes: _paint_curves(axes, result, "tokens", "tokens"),
        "time": lambda axes: _paint_curves(axes, result, "seconds", "seconds of steps"),
        "steps": lambda axes: _paint_steps(axes, result),
        "positions": lambda axes: _paint_positions(axes, result),
    }
    if any(name.startswith(SINGLE) for name in result.arms):
        paints["lengths"] = lambda axes: _paint_lengths(axes, result)
    return [
        _draw(folder / f"{result.setting.name}-{name}", result.setting.name, paint) for name, paint in paints.items()
    ]


def _draw(path: Path, title: str, paint: Callable[["Axes"], None]) -> Path:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(7, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        paint(axes)
        axes.set_title(title, loc="left")
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower center", ncols=2)
        kinds: dict[str, dict[str, Any]] = {"svg": {"metadata": {"Date": None}}, "png": {"dpi": 130}}
        for suffix, options in kinds.items():
            beside = path.with_suffix(f".{suffix}.tmp")
            figure.savefig(beside, format=suffix, **options)
            beside.replace(path.with_suffix(f".{suffix}"))
    return path.with_suffix(".svg")


def _colours(result: SettingResult) -> dict[str, Any]:
    import matplotlib

    # More arms than colours begin again.
    colours = matplotlib.colormaps[COLOURS]
    return {name: colours(number % colours.N) for number, name in enumerate(result.arms)}


def _paint_curves(axes: "Axes", result: SettingResult, axis: str, label: str) -> None:
    """A thin line a seed, and the mean of the seeds where all were evaluated alike."""
    colours = _colours(result)
    for name, arm in result.arms.items():
        curves = list(arm.curves.values())
        for curve in curves:
            axes.plot(getattr(curve, axis), curve.losses, color=colours[name], alpha=0.3, linewidth=0.8)
        x, y = _mean_curve(curves, axis)
        axes.plot(x, y, "o-", color=colours[name], label=arm.arm.title, markersize=3)
    lowest = min(curve.losses.min() for arm in result.arms.values() for curve in arm.curves.values())
    firsts = [curve.losses[0] for arm in result.arms.values() for curve in arm.curves.values()]
    axes.set_ylim(lowest - 0.05, lowest + LATEST_SHARE * (max(firsts) - lowest) + 0.05)
    axes.set(xlabel=label, ylabel="held-out loss, nats per token")


def _mean_curve(curves: Sequence[Curve], axis: str) -> tuple[np.ndarray, np.ndarray]:
    points = min(len(curve.losses) for curve in curves)
    return tuple(np.mean([getattr(curve, name)[:points] for curve in curves], axis=0) for name in (axis, "losses"))  # type: ignore[return-value]


def _paint_steps(axes: "Axes", result: SettingResult) -> None:
    for packed, label in ((False, "step"), (True, "step with segments")):
        shapes = [shape for shape in sorted(result.step_seconds) if shape.packed == packed]
        medians = [result.step_seconds[shape] for shape in shapes]
        if shapes:
            axes.plot([shape.length for shape in shapes], medians, "o-" if not packed else "s", label=label)
    plain = [shape for shape in sorted(result.step_seconds) if not shape.packed]
    if plain:
        unit = result.step_seconds[plain[-1]] / result.flops[plain[-1]]
        lengths = [shape.length for shape in plain]
        in_proportion = [unit * result.flops[shape] for shape in plain]
        axes.plot(lengths, in_proportion, "--", color="gray", label="in proportion to operations")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="row length, tokens", ylabel="seconds a step")


def _paint_positions(axes: "Axes", result: SettingResult) -> None:
    colours = _colours(result)
    for name, arm in result.arms.items():
        starts, losses = _loss_by_position(arm)
        axes.plot(starts, losses, "o-", color=colours[name], label=arm.arm.title, markersize=3)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="position in the document (from here to twice that)", ylabel="held-out loss, nats per token")


def _loss_by_position(arm: ArmResult) -> tuple[list[int], list[float]]:
    """Means over seeds, positions 0 and 1 left out: a logarithmic axis has no zero, and both stand far above."""
    by_start: dict[int, list[float]] = {}
    for rows in arm.positions.values():
        for start, nats, count in rows:
            if start >= 2 and count:
                by_start.setdefault(int(start), []).append(nats / count)
    return list(by_start), [mean(losses) for losses in by_start.values()]


def _paint_lengths(axes: "Axes", result: SettingResult) -> None:
    singles = {int(name.removeprefix(SINGLE)): arm for name, arm in result.arms.items() if name.startswith(SINGLE)}
    lengths = sorted(singles)
    finals = [[outcome.final_loss for outcome in singles[length].outcomes.values()] for length in lengths]
    for length, losses in zip(lengths, finals, strict=True):
        axes.plot([length] * len(losses), losses, ".", color="gray")
    axes.plot(lengths, [mean(losses) for losses in finals], "o-")
    axes.set_xscale("log", base=2)
    axes.set(xlabel="length of all rows, tokens", ylabel="final held-out loss, nats per token")
