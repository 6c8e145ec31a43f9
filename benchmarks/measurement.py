"""One piece of work in a process of its own: CPU seconds, wall seconds, memory; repeated in turns, shown as a table."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result", bound=tuple)

MEGABYTE = 1e6


class Measurement(NamedTuple):
    """What one run took."""

    cpu: float  # seconds of all threads and of child processes
    wall: float  # seconds
    memory: float  # MB: the most that the process held, less what it held before
    digest: str  # of the result: equal for equal results


def read_texts(paths: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Read the columns text, repo and language of Parquet files into memory."""
    import pyarrow.parquet as pq

    tables = [pq.read_table(path, columns=["text", "repo", "language"]) for path in paths]
    texts, repositories, languages = ([] for _ in range(3))
    for table in tables:
        texts += table["text"].to_pylist()
        repositories += table["repo"].to_pylist()
        languages += table["language"].to_pylist()
    return texts, repositories, languages


def measure(work: Callable[[], Any], digest: Callable[[Any], str]) -> None:
    """Do the work and print what it took, for `run_in_turns` to read; the digest is made after the clock stops."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of memory so far
    held = _status("VmRSS")
    cpu, wall = _cpu_seconds(), time.perf_counter()
    result = work()
    cpu, wall = _cpu_seconds() - cpu, time.perf_counter() - wall
    print(json.dumps(Measurement(cpu, wall, (_status("VmHWM") - held) / MEGABYTE, digest(result))))


def run_in_turns(
    module: str,
    peers: Sequence[str],
    arguments: Sequence[str],
    repeats: int,
    *,
    result: type[Result] = Measurement,
    pythons: Mapping[str, str] | None = None,
) -> dict[str, list[Result]]:
    """Run `python -m module ARGUMENTS --peer NAME` for one peer at a time, all peers in every turn.

    The last line that it prints is a JSON list of the fields of a `result`. `pythons` names the interpreters of peers
    that have another one.
    """
    results: dict[str, list[Result]] = {peer: [] for peer in peers}
    for turn in range(repeats):
        for peer in peers:
            print(f"turn {turn + 1} of {repeats}: {peer}", file=sys.stderr, flush=True)
            command = [(pythons or {}).get(peer, sys.executable), "-m", module, *arguments, "--peer", peer]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            results[peer].append(result(*json.loads(output.splitlines()[-1])))
    return results


def installed(peers: Sequence[str]) -> list[str]:
    """Return those peers that can be imported, and say which cannot."""
    missing = [peer for peer in peers if find_spec(peer) is None]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    return [peer for peer in peers if peer not in missing]


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, ["-" * width for width in widths], *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")


def middle(measurements: Sequence[Any], name: str) -> float:
    """Return the median of one of the numbers."""
    return median(getattr(measurement, name) for measurement in measurements)


def paired_ratio(over: Sequence[Any], under: Sequence[Any], name: str) -> float:
    """Return the median, over turns, of the ratio of two runs of the same turn."""
    return median(getattr(a, name) / getattr(b, name) for a, b in zip(over, under, strict=True))


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _status(name: str) -> int:
    """Return a number of bytes from /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
