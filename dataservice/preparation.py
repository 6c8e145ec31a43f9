"""Documents to a token store: one idempotent task per input shard, committed in order, resumable at any moment."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dataservice.errors import StoreError
from dataservice.executors import Executor, count_workers, run_in_order
from dataservice.prepare_commit import PairedWriter
from dataservice.prepare_estimate import describe_plan, describe_rest
from dataservice.prepare_faults import SetAside, describe_fault
from dataservice.prepare_shard import PreparedShard, ShardTask, find_prepared, prepare_shard
from dataservice.store.demand import DEMAND_NAME
from dataservice.store.files import PARTIAL_SUFFIX
from dataservice.store.lock import LOCK_NAME, WriterLock
from dataservice.store.manifest import MANIFEST_NAME, TokenFormat, totals
from dataservice.store.reader import HELD_OUT_NAME, TABLE_NAME, TOKENIZER_NAME
from dataservice.store.shard import INCOMING, SHARDS, read_source, shard_folder
from dataservice.store.table import ShardTable
from tokenizer.corpus import CorpusConfig, list_shards

if TYPE_CHECKING:
    from tokenizer import Progress, Tokenizer

__all__ = ["PHASE", "PrepareReport", "list_tasks", "prepare"]

PHASE = "prepare"
# Times the share of held-out documents that was asked for, from which on it is worth a word.
FAR_OFF = 2.0
BEGUN = (DEMAND_NAME, HELD_OUT_NAME, INCOMING, LOCK_NAME, SHARDS, TABLE_NAME, TOKENIZER_NAME)
"""What a store may hold before its first commit."""


@dataclass(frozen=True, kw_only=True)
class PrepareReport:
    """Counts over the whole store, and how many of its shards this run made.

    `duplicates` are documents whose text was already met in their own input shard (kept, held-out ones included),
    `empty` ones hold no token and are left out, `skipped` ones could not be read or were too long.
    """

    shards: int
    new_shards: int
    documents: int
    tokens: int
    bytes: int
    held_out_documents: int
    empty: int
    duplicates: int
    skipped: int


def prepare(
    corpus: CorpusConfig,
    tokenizer: "Tokenizer",
    output: Path | str,
    *,
    workers: int = 0,
    executor: Executor = "local",
    progress: "Progress | None" = None,
    announce: Callable[[str], None] | None = None,
    wait: bool = False,
    is_wanted: Callable[[int], bool] = lambda shard: True,
) -> PrepareReport:
    """Prepares the store in folder `output`, doing only what is missing.

    The bytes of the store are a function of the documents, the corpus settings and the tokenizer: not of the executor
    and the number of workers, nor of how often preparing was killed and run again. So no fault of a worker can leave
    documents out: an input shard that cannot be prepared ends the run, at once, or (with `on_error="skip"`) when all
    others are finished; committed are the shards before it, and running again does only what is missing.

    Args:
        corpus: where the documents are, and how to read them.
        tokenizer: must be the one that the store was begun with.
        output: the store's folder; made when missing.
        workers: processes; 0 stands for one per core. Where this is not 1, the main module must be importable without
            side effects (`if __name__ == "__main__":`), since workers are spawned.
        executor: local: processes of this machine; ray: tasks of Ray, on nodes that all see the folder `output`.
        progress: called as progress(phase, shards done, shards in all, note=...).
        announce: takes a line about what will be read and written, and after the first shard one about the time.
        wait: wait for another writer of the store to end instead of refusing.
        is_wanted: whether a shard, by its place in the store, may be begun yet; asked again until it may.

    Raises CorpusError (documents), StoreError (store: another tokenizer, other settings, changed input, no room) or
    IngestError (workers of a shard keep being killed, or shards were set aside).
    """
    output = Path(output)
    refuse_other_folder(output)
    tasks = list_tasks(corpus, output, TokenFormat.of(tokenizer))
    try:
        with WriterLock(output, wait=wait):
            writers = PairedWriter(corpus, tokenizer, output, len(tasks))
            refuse_changed_input(output, tasks, writers.table)
            num_old = len(writers.table)
            announce = announce or (lambda line: None)
            groups = make_missing(tasks, writers, workers, executor, announce, is_wanted)
            # Workers end before what they leave is cleared away.
            with closing(writers), closing(groups):
                for prepared in groups:
                    writers.commit(prepared)
                    if progress is not None:
                        note = f"{writers.table.tokens.sum():,} tokens"
                        progress(PHASE, len(writers.table), len(tasks), note=note)
            report = summarise(writers, num_old)
            warn_of_held_out(report, corpus, announce)
            return report
    except OSError as error:
        raise StoreError(
            f"store {output} must be writable, got {describe_fault(error)}; mend that and run again: "
            "the shards that are finished are kept"
        ) from error


def refuse_other_folder(output: Path) -> None:
    """Raises StoreError for a place that is neither a store, perhaps one hardly begun, nor a new or empty folder."""
    if output.exists() and not output.is_dir():
        raise StoreError(f"store must be a folder, got the file {output}; write to another place")
    names = sorted(path.name for path in output.iterdir()) if output.exists() else []
    is_committed = MANIFEST_NAME in names and (TABLE_NAME in names or LOCK_NAME in names)
    is_begun = LOCK_NAME in names or DEMAND_NAME in names
    others = names if not is_begun else [name for name in names if name not in BEGUN and PARTIAL_SUFFIX not in name]
    if others and not is_committed:
        raise StoreError(
            f"store must be a new or empty folder, or a store to carry on with, got {output} with {others[0]}; write "
            "to another place"
        )


def warn_of_held_out(report: PrepareReport, corpus: CorpusConfig, announce: Callable[[str], None]) -> None:
    """Say it where the held-out documents are none, or far from the share that was asked for."""
    held_out, wanted = report.held_out_documents, corpus.held_out_fraction
    share = held_out / max(1, held_out + report.documents)
    if wanted and not held_out:
        announce("prepare: no document is held out, so there is none to evaluate on; raise held_out_fraction")
    elif corpus.held_out_by == "repository" and share > FAR_OFF * wanted:
        announce(
            f"prepare: {held_out:,} of {held_out + report.documents:,} documents are held out, {share:.0%} instead of "
            f"{wanted:.0%}, since few repositories hold them; --held-out-by document goes by single ones"
        )


def make_missing(
    tasks: Sequence[ShardTask],
    writers: PairedWriter,
    workers: int,
    executor: Executor,
    announce: Callable[[str], None],
    is_wanted: Callable[[int], bool],
) -> Generator[list[PreparedShard], None, None]:
    """Yields the shards to commit, in order, in groups that are ready together; announces what it will do."""
    finished = list(find_finished(tasks[len(writers.table) :]))
    first = len(writers.table) + len(finished)
    missing = tasks[first:]
    unfinished = [task for task in missing if not shard_folder(task.store, task.shard.name).exists()]
    announce(describe_plan(unfinished, len(tasks), writers.table))
    yield finished
    set_aside = SetAside(missing)
    outcomes = run_in_order(prepare_shard, missing, workers, executor, is_wanted=lambda index: is_wanted(first + index))
    # How many a cluster does at once is Ray's business.
    is_measured = len(unfinished) < 2 or executor == "ray"
    with closing(outcomes) as groups:
        for group in groups:
            prepared = list(set_aside.sift(group))
            for line in (line for shard in prepared for line in shard.left_out):
                announce(f"left out: {line}")
            made = next((shard for shard in prepared if shard.seconds), None)
            if made is not None and not is_measured:
                is_measured = True
                announce(describe_rest(unfinished, made, count_workers(workers)))
            yield prepared
            set_aside.refuse_at_once()
    set_aside.refuse()


def list_tasks(corpus: CorpusConfig, output: Path, tokens_of: TokenFormat) -> list[ShardTask]:
    """A task for each input shard of the corpus, in store order."""
    return [ShardTask(store=output, shard=shard, corpus=corpus, tokens_of=tokens_of) for shard in list_shards(corpus)]


def refuse_changed_input(output: Path, tasks: Sequence[ShardTask], table: ShardTable) -> None:
    """Raises StoreError unless the committed shards were made from the first of the tasks' inputs as they are now."""
    for name, task in zip(table.names, tasks, strict=False):
        if name != task.shard.name:
            raise StoreError(
                f"input of store {output} must begin with what it was made from, got {task.shard.name} in the place of "
                f"{name}; name the old sources first, and new ones after them, or prepare another store"
            )
        if read_source(output, name) != task.shard.identity:
            raise StoreError(
                f"input of shard {name} of store {output} must be as it was when it was prepared, got changed files; "
                "prepare another store"
            )


def find_finished(tasks: Sequence[ShardTask]) -> Iterator[PreparedShard]:
    """The shards that an earlier run finished without committing them, up to the first that is missing."""
    for task in tasks:
        prepared = find_prepared(task)
        if prepared is None:
            return
        yield prepared


def summarise(writers: PairedWriter, num_old: int) -> PrepareReport:
    """Counts over the whole store."""
    held_out = writers.held_out_table
    return PrepareReport(
        shards=len(writers.table),
        new_shards=len(writers.table) - num_old,
        held_out_documents=0 if held_out is None else int(held_out.documents.sum()),
        **totals(writers.table),
    )
