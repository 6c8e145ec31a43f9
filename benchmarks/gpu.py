"""The train step on one GPU, in one call of less than 8 minutes; writes docs/gpu.md.

    pip install -c constraints.txt -e ".[cuda]"         # and torch with CUDA, to be compared
    python -m benchmarks.gpu [--document docs/gpu.md]
    python -m benchmarks.gpu --cpu-small                # every part at tiny sizes, on CPU, in a minute

OpenLM 160M, 410M and 1B in bfloat16, 65,536 tokens a step: step time, MFU (by formula, recomputation not counted) and
memory of every length; their mean over the natural mixture of lengths against fixed ones; a grid of rows x length; the
attention kernel against the float32 path; torch.compile with flash attention on the same shape; the start with an
empty and a full compile cache. Step times are of random tokens, means of five repetitions, with deviation.

Each part has a process and a time of its own. It begins nothing new after that time, and is ended some seconds later
if need be; what it has measured until then counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gpu_parts import FULL, PARTS, SMALL, Row, measure_part
from benchmarks.gpu_report import report

SECONDS = {"device": 20, "kernels": 25, "cold start": 60, "warm start": 20, "buckets": 150, "torch": 75, "grid": 60}
"""Seconds after which a part begins nothing new."""
GRACE_SECONDS = 8
"""More seconds to end in: 466 in all."""
SECONDS_SMALL = 240
"""Of every part at tiny sizes, where the machine may be slow or busy."""
CPU_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false",
}
"""What runs for a moment is not worth optimising."""


def run_part(name: str, options: argparse.Namespace, cache: str) -> list[Row]:
    """The rows of a part, measured by another process."""
    limit = SECONDS_SMALL if options.cpu_small else SECONDS[name] + GRACE_SECONDS
    print(f"{name} (at most {limit} s)", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.gpu", "--part", name, "--cache", cache]
    command += ["--cpu-small"] if options.cpu_small else []
    environment = os.environ | (CPU_ENVIRONMENT if options.cpu_small else {})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            output += "\n" + json.dumps({"note": "ended when its time was over"})
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if process.returncode > 0:
        rows.append({"note": f"failed with exit code {process.returncode}"})
    return rows


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--document", type=Path, help="file to write; without it the tables are printed alone")
    parser.add_argument("--cpu-small", action="store_true", help="tiny sizes, to see that every part works")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure (default all)")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    options = make_parser().parse_args()
    if options.part:
        sizes = SMALL if options.cpu_small else FULL
        limit = SECONDS_SMALL if options.cpu_small else SECONDS[options.part]
        for row in measure_part(options.part, sizes, options.cache, limit):
            print(json.dumps(row), flush=True)
        return
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as cache:
        found = {name: run_part(name, options, cache) for name in options.parts}
    command = " ".join(["python -m benchmarks.gpu", *sys.argv[1:]])
    text = report(found, command, time.monotonic() - start)
    print(text, end="")
    if options.document:
        options.document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
