"""The commands of `python -m dataservice`: each prints what it did and returns the exit status."""

import argparse
import sys

from dataservice.config import DataConfig
from tokenizer.options import take_options

__all__ = ["run_prepare", "run_show", "run_stats", "run_verify"]

DAMAGED = 1


def run_prepare(arguments: argparse.Namespace) -> int:
    """Documents to a store."""
    from dataservice.preparation import prepare
    from dataservice.prepare_estimate import format_bytes
    from tokenizer import Tokenizer, show_progress
    from tokenizer.corpus import CorpusConfig

    corpus = take_options(arguments, CorpusConfig, paths=tuple(arguments.paths))
    tokenizer = Tokenizer.load(arguments.tokenizer)
    with show_progress() as progress:
        report = prepare(
            corpus,
            tokenizer,
            arguments.output,
            workers=arguments.workers,
            progress=progress,
            announce=lambda line: print(line, file=sys.stderr, flush=True),
        )
    print(
        f"{arguments.output}: {report.shards:,} shards ({report.new_shards:,} new), {report.documents:,} documents, "
        f"{report.tokens:,} tokens of {format_bytes(report.bytes)} text"
    )
    print(
        f"held out {report.held_out_documents:,} documents; left out {report.empty:,} empty and {report.skipped:,} "
        f"unreadable or too long; {report.duplicates:,} repeat a text of their shard"
    )
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    """Every byte of a store against its digests: a line a problem, and status 1 when there are any."""
    from dataservice.store import Store
    from dataservice.verification import verify

    store = Store.open(arguments.folder)
    problems = verify(store)
    for problem in problems:
        print(problem.line)
    if problems:
        return DAMAGED
    state = "complete" if store.is_complete else f"{len(store.shards):,} of {store.num_planned_shards:,} shards so far"
    print(f"{arguments.folder} is as it was written: {store.manifest.totals['tokens']:,} tokens, {state}")
    return 0


def run_stats(arguments: argparse.Namespace) -> int:
    """What an epoch over a store would see, bucket by bucket."""
    from dataservice.statistics import format_statistics, measure
    from dataservice.store import Store

    config = take_options(arguments, DataConfig)
    print(format_statistics(measure(Store.open(arguments.folder), config)))
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Text and source of a step's rows."""
    from dataservice.inspection import show_step
    from dataservice.store import Store

    config = take_options(arguments, DataConfig)
    for line in show_step(Store.open(arguments.folder), config, arguments.step):
        print(line)
    return 0
