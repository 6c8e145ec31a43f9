"""Counting distinct words, and which repositories and languages hold them."""

import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import get_context

from tokenizer.counting.counter import Counter, Part, WordCounts
from tokenizer.errors import TokenizerError
from tokenizer.progress import Progress

__all__ = ["WordCounts", "count_words"]

_BATCH_CHARACTERS = 500_000  # as many as stay in the second-level cache while they are split and looked up
_TASK_CHARACTERS = 4_000_000  # what a process takes at once
_MOST_WORDS_KEPT = 1 << 20  # by a process that counts parts
_PERIOD_CHARACTERS = 4_000_000  # how often the distinct words are compared with the limit


def count_words(
    documents: Iterable[Sequence[str]],
    pattern: str,
    *,
    max_words: int | None = None,
    progress: Progress | None = None,
    processes: int = 1,
) -> WordCounts:
    """Count the words of documents (text, repository, language, ...); memory grows with the distinct words only.

    With `max_words`, whenever the distinct words are more than that after another 4 million characters, the rarest are
    left out until at most half of `max_words` are kept; at the end, until at most `max_words` are. The result then
    depends on the order of the documents, but never on `processes`. `progress("count words", characters, None)` is
    called now and then.
    """
    if processes < 1:
        raise TokenizerError(f"processes must be at least 1, got {processes}")
    total = Counter(pattern)
    period_start = 0
    for _ in _count_into(total, documents, pattern, processes):
        _report(progress, total.num_characters, None)
        if total.num_characters - period_start >= _PERIOD_CHARACTERS:
            period_start = total.num_characters
            if max_words is not None and total.num_words > max_words:
                total.forget(max_words // 2)
    if max_words is not None:
        total.forget(max_words)
    _report(progress, total.num_characters, total.num_characters)
    return total.result()


def _count_into(total: Counter, documents: Iterable[Sequence[str]], pattern: str, processes: int) -> Iterator[None]:
    """Count documents, and come back after every batch; a period always ends with a batch."""
    if processes == 1:
        for batch in _batches(documents, _BATCH_CHARACTERS):
            yield total.add(batch)
    else:
        for part in _count_in_processes(_batches(documents, _TASK_CHARACTERS), pattern, processes):
            yield total.absorb(part)


def _report(progress: Progress | None, done: int, total: int | None) -> None:
    if progress:
        progress("count words", done, total)


def _batches(documents: Iterable[Sequence[str]], num_characters: int) -> Iterator[list[Sequence[str]]]:
    """Group documents, in order, into lists of at least `num_characters` characters, fewer where a period ends."""
    batch, size, period = [], 0, 0
    for document in documents:
        batch.append(document)
        size += len(document[0])
        period += len(document[0])
        if size >= num_characters or period >= _PERIOD_CHARACTERS or len(batch) >= num_characters:
            yield batch
            batch, size = [], 0
            period = 0 if period >= _PERIOD_CHARACTERS else period
    if batch:
        yield batch


def _count_in_processes(batches: Iterator[list[Sequence[str]]], pattern: str, processes: int) -> Iterator[Part]:
    """Yield what each batch adds, in the order of the batches; few batches are in memory at a time.

    This process counts too: whenever the others, one fewer than `processes`, have each a batch in hand and one waiting.
    """
    waiting: deque[Future[Part]] = deque()
    own = _PartCounter(pattern)
    pool = ProcessPoolExecutor(processes - 1, mp_context=get_context("spawn"))
    try:
        for batch in batches:
            if sum(not future.done() for future in waiting) < 2 * (processes - 1):
                task: list[Sequence[str]] = [tuple(document[:3]) for document in batch]
                with _interrupts_held():
                    waiting.append(pool.submit(_count_in_pool, task, pattern))
            else:
                waiting.append(Future())
                waiting[-1].set_result(own.count(batch))
            while waiting and (waiting[0].done() or len(waiting) > 4 * processes):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C, which the terminal sends to every process, from those that are started here: they end with us."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _PartCounter:
    """Counts parts with a table of words that stays, so that later parts meet words that are known."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._counter = Counter(pattern, gives_parts=True)

    def count(self, documents: Sequence[Sequence[str]]) -> Part:
        """Count some documents in a row."""
        if self._counter.num_words > _MOST_WORDS_KEPT:
            self._counter = Counter(self._pattern, gives_parts=True)
        for batch in _batches(documents, _BATCH_CHARACTERS):
            self._counter.add(batch)
        return self._counter.take_part()


_of_pattern = lru_cache(maxsize=1)(_PartCounter)  # in a process of the pool


def _count_in_pool(documents: list[Sequence[str]], pattern: str) -> Part:
    return _of_pattern(pattern).count(documents)
