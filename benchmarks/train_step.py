"""The train step on CPU: DyadLM against transformers' Llama with torch's AdamW, of the same shape and weights.

    pip install -e ".[peers]" torch
    python -m benchmarks.train_step [--model small] [--lengths 256 1024 4096] [--threads 1] [--document docs/speed.md]
    python -m benchmarks.train_step --memory

Both sides begin with the same weights, see the same batches of random tokens in float32 (torch: sdpa attention, fused
AdamW, clipping, gradients set to none), and their losses must agree to 1e-4 over the first steps, or the benchmark
fails. Each side has a process of its own, bound to the same cores; both live at once and take turns of some steps, so
that what else the machine does weighs on both alike. CPU seconds are of all threads; torch's wait actively, so with
more than one thread wall time counts. `over torch` is the median over turns of the ratio of tokens per second within a
turn, with the quartiles.

`--memory` trains on one row of 512 to 8,192 tokens: what the compiled step says that it needs beside its arguments,
and the most that the process holds beyond that of the shortest row.
"""

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from benchmarks.document import write_part
from benchmarks.measurement import print_table
from benchmarks.recipes import MODELS
from benchmarks.train_step_peers import PEERS, Turn, write_shared_model

TOLERANCE = 1e-4
CHECKED_STEPS = 4
MEMORY_LENGTHS = (512, 1024, 2048, 4096, 8192)


class Pair(NamedTuple):
    """Turns of both sides, in the order of PEERS."""

    ours: list[Turn]
    theirs: list[Turn]


@contextlib.contextmanager
def trainer(peer: str, folder: Path, options: argparse.Namespace, rows: int, length: int) -> Iterator[subprocess.Popen]:
    """A process that takes steps when told to."""
    shape = ["--model", options.model, "--rows", str(rows), "--length", str(length)]
    command = [sys.executable, "-m", "benchmarks.train_step_peers", peer, str(folder), *shape]
    command += ["--threads", str(options.threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit(f"{peer} did not start; see its message above")
        yield process
        process.stdin.close()


def ask(process: subprocess.Popen, steps: int) -> Turn:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    return Turn(*json.loads(process.stdout.readline()))


def run_pair(folder: Path, options: argparse.Namespace, length: int) -> Pair:
    """Check that both sides compute the same, then let them take turns."""
    rows = max(1, options.tokens_per_step // length)
    print(f"length {length}, {rows} rows, {options.threads} threads", file=sys.stderr, flush=True)
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(trainer(peer, folder, options, rows, length)) for peer in PEERS]
        first = [ask(side, CHECKED_STEPS).losses for side in sides]
        worst = max(abs(a - b) for a, b in zip(*first, strict=True))
        assert worst < TOLERANCE, f"losses must agree to {TOLERANCE}, got {first}"
        print(f"losses of {CHECKED_STEPS} steps agree to {worst:.1e}", file=sys.stderr)
        steps = options.steps or steps_of_a_turn(ask(sides[0], 1), options.seconds)
        turns = [[ask(side, steps) for side in sides] for _ in range(options.turns)]
    return Pair([turn[0] for turn in turns], [turn[1] for turn in turns])


def steps_of_a_turn(one: Turn, seconds: float) -> int:
    return max(1, round(seconds / one.wall))


def describe(length: int, tokens: int, pair: Pair) -> list[str]:
    """A row of the table."""
    cells = [f"{length:,}"]
    for name in ("cpu", "wall"):
        rates = [[tokens * len(turn.losses) / getattr(turn, name) for turn in side] for side in pair]
        ratios = [ours / theirs for ours, theirs in zip(*rates, strict=True)]
        low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        cells += [f"{median(side):,.0f}" for side in rates]
        cells.append(f"{median(ratios):.2f} ({low:.2f} to {high:.2f})")
    return [*cells, *(f"{max(turn.memory for turn in side):,.0f}" for side in pair)]


def compare(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_shared_model(folder, options.model)
        rows = []
        for length in options.lengths:
            pair = run_pair(folder, options, length)
            rows.append(describe(length, max(options.tokens_per_step, length), pair))
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    header = ["length", "DyadLM tokens / CPU s", "torch", "over torch", "DyadLM tokens / s", "torch", "over torch"]
    print_table([*header, "DyadLM MB", "torch MB"], rows)


def measure_memory(options: argparse.Namespace) -> None:
    """One row of each length, in a process of its own."""
    from benchmarks.train_memory import measure_length

    rows, least = [], None
    for length in MEMORY_LENGTHS:
        found = measure_length(options.model, length)
        least = least or found
        rows.append(
            [f"{length:,}", f"{found.temporary:,.1f}", f"{found.temporary / length * 1e3:.1f}", f"{found.held:,.0f}"]
        )
    print_table(["tokens in the row", "temporary MB", "KB a token", "process MB"], rows)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="small", help="what to train (default small)")
    parser.add_argument("--lengths", nargs="+", type=int, default=[256, 1024, 4096], metavar="LENGTH")
    parser.add_argument("--tokens-per-step", type=int, default=4096, help="tokens of a batch (default 4096)")
    parser.add_argument("--threads", type=int, default=1, help="cores that each side is bound to (default 1)")
    parser.add_argument("--turns", type=int, default=7, help="turns of both sides (default 7)")
    parser.add_argument("--seconds", type=float, default=4, help="length of a turn (default 4)")
    parser.add_argument("--steps", type=int, default=0, help="steps of a turn; 0: as many as fit into --seconds")
    parser.add_argument("--memory", action="store_true", help="measure memory by length instead")
    parser.add_argument("--document", type=Path, help="write the table into this document as well")
    return parser


def main() -> None:
    options = make_parser().parse_args()
    work = measure_memory if options.memory else compare
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        work(options)
    print(shown.getvalue(), end="")
    if options.document:
        name = "memory of a step" if options.memory else f"train step, {options.model}, threads {options.threads}"
        command = " ".join(["python -m benchmarks.train_step", *sys.argv[1:]])
        write_part(options.document, name, f"`{command}`:\n\n{shown.getvalue()}")


if __name__ == "__main__":
    main()
