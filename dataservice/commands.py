"""The commands of `python -m dataservice`: each prints what it did and returns the exit status."""

import argparse
import sys
from pathlib import Path

from dataservice.config import DataConfig
from dataservice.errors import DataError
from tokenizer.options import take_options

__all__ = ["run_curriculum", "run_prepare", "run_serve", "run_show", "run_stats", "run_verify"]

DAMAGED = 1


def read_place(text: str) -> str | dict[str, float]:
    """The store that a command line names, or several with their weights.

    >>> read_place("store"), read_place("{code: 3, books: 1}")
    ('store', {'code': 3.0, 'books': 1.0})
    """
    if not text.startswith("{"):
        return text
    pairs = [part.rpartition(":")[::2] for part in text.strip("{} ").split(",")]
    try:
        return {place.strip(): float(weight) for place, weight in pairs}
    except ValueError:
        raise DataError(f"STORE must be a store or {{STORE: weight, ...}}, got {text}") from None


def run_prepare(arguments: argparse.Namespace) -> int:
    """Documents to a store."""
    from dataservice.preparation import prepare
    from dataservice.prepare_estimate import format_bytes
    from tokenizer import Tokenizer, show_progress
    from tokenizer.corpus import CorpusConfig
    from tokenizer.output import check_owner

    if not arguments.output:
        raise DataError("--output must be the name of a folder, got an empty one; set --output STORE")
    check_owner(Path(arguments.output), "--output")
    corpus = take_options(arguments, CorpusConfig, paths=tuple(arguments.paths))
    tokenizer = Tokenizer.load(arguments.tokenizer)
    with show_progress() as progress:
        report = prepare(
            corpus,
            tokenizer,
            arguments.output,
            workers=arguments.workers,
            executor=arguments.executor,
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
    from dataservice.locating import open_store
    from dataservice.store.removal import Removal
    from dataservice.verification import verify

    store = open_store(take_options(arguments, DataConfig, store=arguments.folder))
    problems = verify(store)
    for problem in problems:
        print(problem.line)
    if problems:
        return DAMAGED
    state = "complete" if store.is_complete else f"{len(store.shards):,} of {store.num_planned_shards:,} shards so far"
    removal = Removal.read(store.path)
    gone = f"; {removal.num_removed:,} shards were removed behind training" if removal is not None else ""
    print(f"{arguments.folder} is as it was written: {store.manifest.totals['tokens']:,} tokens, {state}{gone}")
    return 0


def run_stats(arguments: argparse.Namespace) -> int:
    """What an epoch over a store would see, bucket by bucket."""
    from dataservice.locating import describe_small_cache, open_store
    from dataservice.statistics import format_kinds, format_statistics, measure, measure_kinds
    from dataservice.store.mixing import MixedStore
    from tokenizer.output import check_output_file

    config = take_options(arguments, DataConfig, store=read_place(arguments.folder))
    if arguments.page is not None:
        check_output_file(Path(arguments.page), name="--page")
    store = open_store(config)
    if (warning := describe_small_cache(store, config)) is not None:
        print(warning, file=sys.stderr)
    if isinstance(store, MixedStore):
        print("\n".join(store.describe()))
    if store.is_complete and not store.shards.documents.any():
        raise DataError(
            f"store {arguments.folder} must hold documents to count, got none; name sources with documents to "
            "python -m dataservice prepare PATH... --tokenizer DIR --output STORE"
        )
    statistics, kinds = measure(store, config), measure_kinds(store, config)
    # Before anything is printed, as whoever reads that may leave.
    if arguments.page is not None:
        from dataservice.statistics_page import write_statistics_page  # matplotlib takes a second to import

        write_statistics_page(Path(arguments.page), arguments.folder, statistics, kinds)
        print(f"wrote {arguments.page}", file=sys.stderr)
    print(format_statistics(statistics))
    print("\nEvery kind of sequences, all rows taken once:")
    print(format_kinds(kinds))
    return 0


def run_curriculum(arguments: argparse.Namespace) -> int:
    """Every step of a run, a line for several."""
    from dataservice.dry_run import curriculum_lines
    from dataservice.locating import open_store

    config = take_options(arguments, DataConfig, store=read_place(arguments.folder))
    for line in curriculum_lines(open_store(config), config, every=arguments.every):
        print(line)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Text and source of a step's rows."""
    from dataservice.inspection import show_step
    from dataservice.locating import open_store

    config = take_options(arguments, DataConfig, store=read_place(arguments.folder))
    for line in show_step(open_store(config), config, arguments.step):
        print(line)
    return 0


def run_serve(arguments: argparse.Namespace) -> int:
    """A store over the network, until interrupted or told to end."""
    from dataservice.locating import open_store
    from dataservice.service.serving import serve
    from dataservice.service.settings import ServerSettings

    settings = take_options(arguments, ServerSettings)
    return serve(open_store(DataConfig(store=arguments.folder)), settings)
