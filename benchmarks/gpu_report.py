"""What benchmarks.gpu found, as Markdown."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

__all__ = ["NATURAL", "decomposed_mean", "report"]

Row = dict[str, Any]

NATURAL = {64: 3, 128: 6, 256: 10, 512: 17, 1024: 21, 2048: 17, 4096: 13, 8192: 9}
"""Tokens (in 2^30) that a web corpus has in each length (Pouransari et al., arXiv:2405.13226, mixture `natural`)."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


def decomposed_mean(values: Mapping[int, float], longest: int) -> float | None:
    """Mean of a value of each length over the natural mixture, rows longer than `longest` cut to it.

    Every step has as many tokens, so steps are shared out as tokens are. None where a length of the mixture is missing.
    (A step at 64 takes 1 s, at 128 takes 2 s: over equal shares of both the mean is 1.5 s.)
    """
    shares: dict[int, int] = {}
    for length, share in NATURAL.items():
        cut = min(length, longest)
        shares[cut] = shares.get(cut, 0) + share
    if not shares.keys() <= values.keys():
        return None
    return sum(values[length] * share for length, share in shares.items()) / sum(shares.values())


def report(found: Mapping[str, Sequence[Row]], command: str, seconds: float) -> str:
    """The whole document."""
    lines = ["# The train step on one GPU", ""]
    for row in found.get("device", []):
        if "device" in row:
            memory = f", {row['memory'] / 1e9:.0f} GB" if row["memory"] else ""
            lines += [f"{row['device']}{memory}; {', '.join(row['versions'])}."]
    lines += [f"`{command}`, {seconds:.0f} seconds in all.", ""]
    timed = [row for row in found.get("buckets", []) if "seconds" in row]
    lines += ["## Step time and MFU", "", *_bucket_table(timed, found.get("torch", [])), ""]
    lines += ["## The natural mixture against a fixed length", "", *_mixture_table(timed), ""]
    lines += ["## Rows x length", "", *_grid_table(found.get("grid", [])), ""]
    lines += ["## Attention kernels", "", *_kernel_table(found.get("kernels", [])), ""]
    lines += ["## Start", "", *_start_lines(found), ""]
    notes = [f"- {name}: {row['note']}" for name, rows in found.items() for row in rows if "note" in row]
    return "\n".join([*lines, *(["## Left out", "", *notes] if notes else [])]).strip() + "\n"


def _bucket_table(timed: Sequence[Row], torch_rows: Sequence[Row]) -> list[str]:
    theirs = {(row["model"], row["length"]): mean(row["seconds"]) for row in torch_rows if "seconds" in row}
    rows = []
    for row in timed:
        seconds = mean(row["seconds"])
        rival = theirs.get((row["model"], row["length"]))
        rows.append(
            [
                row["model"],
                f"{row['length']:,}",
                f"{row['rows']:,}",
                _milliseconds(row["seconds"]),
                f"{row['rows'] * row['length'] / seconds:,.0f}",
                f"{row['flops'] / seconds / row['peak']:.1%}" if row["peak"] else "-",
                f"{row['temporary'] / 1e9:.2f}",
                row["remat"],
                f"{rival * 1e3:.1f}" if rival else "-",
                f"{rival / seconds:.2f}" if rival else "-",
            ]
        )
    header = ["model", "length", "rows", "ms a step", "tokens / s", "MFU", "temporary GB", "remat"]
    return table([*header, "torch ms", "tokens / s over torch"], rows)


def _mixture_table(timed: Sequence[Row]) -> list[str]:
    """Step time of the mixture over that of a fixed length, against the ratio of their FLOPs."""
    rows = []
    for name in dict.fromkeys(row["model"] for row in timed):
        seconds = {row["length"]: mean(row["seconds"]) for row in timed if row["model"] == name}
        flops = {row["length"]: row["flops"] for row in timed if row["model"] == name}
        for fixed in (2048, 8192, 16_384):
            mixed, mixed_flops = decomposed_mean(seconds, fixed), decomposed_mean(flops, fixed)
            if mixed is None or mixed_flops is None or fixed not in seconds:
                continue
            time_ratio, flops_ratio = mixed / seconds[fixed], mixed_flops / flops[fixed]
            cells = [f"{mixed * 1e3:.1f}", f"{seconds[fixed] * 1e3:.1f}", f"{time_ratio:.3f}", f"{flops_ratio:.3f}"]
            rows.append([name, f"{fixed:,}", *cells, f"{time_ratio / flops_ratio:.3f}"])
    header = ["model", "fixed length", "mixture ms", "fixed ms", "time ratio", "FLOP ratio", "time over FLOPs"]
    return table(header, rows) if rows else ["Not all lengths of the mixture were measured."]


def _grid_table(grid: Sequence[Row]) -> list[str]:
    """Lengths down, rows across; milliseconds with the deviation over repetitions."""
    cells = {(row["length"], row["rows"]): _milliseconds(row["seconds"]) for row in grid if "seconds" in row}
    if not cells:
        return ["Not measured."]
    lengths, columns = (sorted({key[axis] for key in cells}) for axis in (0, 1))
    body = [[f"{length:,}", *(cells.get((length, rows), "") for rows in columns)] for length in lengths]
    return table(["length \\ rows", *(f"{rows:,}" for rows in columns)], body)


def _kernel_table(kernels: Sequence[Row]) -> list[str]:
    checks = ", ".join(f"{row['kernel']} {row['error']:.1e}" for row in kernels if "kernel" in row) or "not measured"
    rows = [
        [f"{row['length']:,}", row["dtype"], f"{row['output']:.1e}", f"{row['gradient']:.1e}"]
        for row in kernels
        if "output" in row
    ]
    said = f"Largest relative error against float64 at 128 tokens (`model.selfcheck`): {checks}."
    header = ["length", "dtype", "largest difference from float32", "of a gradient"]
    return [said, "", *table(header, rows)]


def _start_lines(found: Mapping[str, Sequence[Row]]) -> list[str]:
    cold, warm = (
        next((row["seconds"] for row in found.get(f"{state} start", []) if "seconds" in row), None)
        for state in ("cold", "warm")
    )
    if cold is None or warm is None:
        return ["Not measured."]
    lengths = found["cold start"][0]["lengths"]
    return [
        f"The steps of {lengths} lengths are there after {cold:.1f} s with an empty compile cache, {warm:.1f} s with a "
        f"full one ({warm / cold:.2f})."
    ]


def _milliseconds(seconds: Sequence[float]) -> str:
    return f"{mean(seconds) * 1e3:.1f} ± {stdev(seconds) * 1e3:.1f}"
