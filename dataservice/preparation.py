"""Documents to a token store: one idempotent task per input shard, committed in order, resumable at any moment."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dataservice.errors import StoreError
from dataservice.prepare_commit import PairedWriter
from dataservice.prepare_estimate import describe_plan, describe_rest
from dataservice.prepare_pool import count_workers, run_in_order
from dataservice.prepare_shard import PreparedShard, ShardTask, find_prepared, prepare_shard
from dataservice.store.lock import WriterLock
from dataservice.store.manifest import TokenFormat, totals
from dataservice.store.shard import read_source
from dataservice.store.table import ShardTable
from tokenizer.corpus import CorpusConfig, list_shards

if TYPE_CHECKING:
    from tokenizer import Progress, Tokenizer

__all__ = ["PHASE", "PrepareReport", "list_tasks", "prepare"]

PHASE = "prepare"


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
    progress: "Progress | None" = None,
    announce: Callable[[str], None] | None = None,
    wait: bool = False,
) -> PrepareReport:
    """Prepares the store in folder `output`, doing only what is missing.

    The bytes of the store are a function of the documents, the corpus settings and the tokenizer: not of the number
    of workers, nor of how often preparing was killed and run again.

    Args:
        corpus: where the documents are, and how to read them.
        tokenizer: must be the one that the store was begun with.
        output: the store's folder; made when missing.
        workers: processes; 0 stands for one per core. Where this is not 1, the main module must be importable without
            side effects (`if __name__ == "__main__":`), since workers are spawned.
        progress: called as progress(phase, shards done, shards in all, note=...).
        announce: takes a line about what will be read and written, and after the first shard one about the time.
        wait: wait for another writer of the store to end instead of refusing.

    Raises CorpusError (documents), StoreError (store: another tokenizer, other settings, changed input, no room) or
    IngestError (workers keep being killed).
    """
    output = Path(output)
    tasks = list_tasks(corpus, output, TokenFormat.of(tokenizer))
    try:
        with WriterLock(output, wait=wait):
            writers = PairedWriter(corpus, tokenizer, output, len(tasks))
            refuse_changed_input(output, tasks, writers.table)
            num_old = len(writers.table)
            with closing(writers):
                for prepared in make_missing(tasks, writers, count_workers(workers), announce or (lambda line: None)):
                    writers.commit(prepared)
                    if progress is not None:
                        note = f"{writers.table.tokens.sum():,} tokens"
                        progress(PHASE, len(writers.table), len(tasks), note=note)
            return summarise(writers, num_old)
    except OSError as error:
        raise StoreError(
            f"store {output} must be writable, got {error.strerror or error}; mend that and run again: "
            "the shards that are finished are kept"
        ) from error


def make_missing(
    tasks: Sequence[ShardTask], writers: PairedWriter, workers: int, announce: Callable[[str], None]
) -> Iterator[list[PreparedShard]]:
    """Yields the shards to commit, in order, in groups that are ready together; announces what it will do."""
    finished = list(find_finished(tasks[len(writers.table) :]))
    missing = tasks[len(writers.table) + len(finished) :]
    announce(describe_plan(missing, len(tasks), writers.table))
    yield finished
    with closing(run_in_order(prepare_shard, missing, workers)) as groups:
        for index, prepared in enumerate(groups):
            if index == 0 and len(missing) > 1:
                announce(describe_rest(missing, prepared[0], workers))
            yield prepared


def list_tasks(corpus: CorpusConfig, output: Path, tokens_of: TokenFormat) -> list[ShardTask]:
    """A task for each input shard of the corpus, in store order."""
    return [ShardTask(store=output, shard=shard, corpus=corpus, tokens_of=tokens_of) for shard in list_shards(corpus)]


def refuse_changed_input(output: Path, tasks: Sequence[ShardTask], table: ShardTable) -> None:
    """Raises StoreError unless the committed shards were made from the first of the tasks' inputs as they are now."""
    for name, task in zip(table.names, tasks, strict=False):
        if name != task.shard.name or read_source(output, name) != task.shard.identity:
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
