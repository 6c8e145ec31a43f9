"""Counting distinct words, and which repositories and languages hold them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from tokenizer.counting.counter import Counter, WordCounts
from tokenizer.counting.parts import Batch
from tokenizer.counting.processes import count_together, start_workers
from tokenizer.errors import TokenizerError
from tokenizer.progress import Progress

__all__ = ["WordCounts", "count_words"]

_BATCH_CHARACTERS = 500_000  # as many as stay in the second-level cache while they are split and looked up
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
    depends on the order of the documents, but never on `processes`, each of which has a table of distinct words of its
    own. `progress("count words", characters, None)` is called now and then.
    """
    if processes < 1:
        raise TokenizerError(f"processes must be at least 1, got {processes}")
    total = Counter(pattern)
    batches = _reported(_batches(documents), progress)
    with start_workers(pattern, processes - 1) as workers:
        if max_words is None:
            count_together(batches, total, workers)
        else:
            for _, period in groupby(batches, lambda batch: batch.period):
                start = total.num_characters
                count_together(period, total, workers)
                if total.num_characters - start >= _PERIOD_CHARACTERS and total.num_words > max_words:
                    total.forget(max_words // 2)
            total.forget(max_words)
    if progress:
        progress("count words", total.num_characters, total.num_characters)
    return total.result()


def _batches(documents: Iterable[Sequence[str]]) -> Iterator[Batch]:
    """Group documents, in order, into batches of at least _BATCH_CHARACTERS, fewer where a period ends."""
    number, period, first = 0, 0, 0
    held, size, period_size = [], 0, 0
    for document in documents:
        held.append((_plain(document[0]), _plain(document[1]), _plain(document[2])))
        size += len(document[0])
        period_size += len(document[0])
        is_last = period_size >= _PERIOD_CHARACTERS
        if is_last or size >= _BATCH_CHARACTERS or len(held) >= _BATCH_CHARACTERS:
            yield Batch(number, period, first, size, held)
            number, first, held, size = number + 1, first + len(held), [], 0
            period, period_size = (period + 1, 0) if is_last else (period, period_size)
    if held:
        yield Batch(number, period, first, size, held)


def _plain(text: str) -> str:
    """A text whose class is `str` itself: other processes may not have a class of the caller's."""
    return text if type(text) is str else str.__str__(text)


def _reported(batches: Iterable[Batch], progress: Progress | None) -> Iterator[Batch]:
    """Pass batches on, and report the characters of those before."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_characters
        if progress:
            progress("count words", done, None)
