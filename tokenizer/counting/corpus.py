"""Counting the words of the documents to train on: those given, or those of a corpus that are not held out."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tokenizer.config import TokenizerConfig
from tokenizer.corpus import CorpusConfig, Document, InputShard, is_held_out, read_shard
from tokenizer.corpus.columns import choose_columns
from tokenizer.counting.counts import WordCounts, count_words
from tokenizer.errors import TokenizerError
from tokenizer.progress import Progress
from tokenizer.splitting.patterns import resolve_pattern, warn_of_engines

__all__ = ["Counted", "count_documents", "count_shards"]

DOCUMENTS_BETWEEN_REPORTS = 1000
MOST_OFF = 2
"""Held-out documents that are so many times more or fewer than asked are worth a warning."""

log = logging.getLogger(__name__)


class Counted(NamedTuple):
    """The words, and what provenance tells of where they come from."""

    words: WordCounts
    provenance: dict[str, Any]


def count_documents(
    documents: Iterable[Sequence[str] | Mapping[str, Any]],
    config: TokenizerConfig,
    *,
    progress: Progress | None = None,
    processes: int = 1,
) -> Counted:
    """Count (text, repository, language) rows, or mappings that hold such columns."""
    resolve_pattern(config.pattern)  # a faulty expression shows before anything is read
    warn_of_engines(config.pattern)
    options = {"max_words": config.max_words, "progress": progress, "processes": processes}
    return _told(count_words(_as_sources(documents), config.pattern, **options), {}, config)


def count_shards(
    shards: Sequence[InputShard],
    corpus: CorpusConfig,
    config: TokenizerConfig,
    *,
    progress: Progress | None = None,
    processes: int = 1,
) -> Counted:
    """Count the documents of these shards that are not held out; says what was left out and why."""
    resolve_pattern(config.pattern)  # a faulty expression shows before anything is read
    warn_of_engines(config.pattern)
    reading = _Reading(shards, corpus, progress)
    words = count_words(reading.documents(), config.pattern, max_words=config.max_words, processes=processes)
    if reading.skipped:
        log.warning("left out %d documents; the first: %s", len(reading.skipped), reading.skipped[0])
    if not reading.num_documents:
        raise TokenizerError(
            "corpus must hold at least one document to train on, got none; "
            "see corpus.languages and corpus.held_out_fraction"
        )
    reading.compare_held_out()
    return _told(words, {"corpus": reading.summary()}, config)


def _told(words: WordCounts, provenance: dict[str, Any], config: TokenizerConfig) -> Counted:
    """Say what `max_words` has left out, if anything."""
    if words.left_out.words:
        log.warning(
            "max_words %d left out %d words that occurred %d times; no count of a word is more than %d too low",
            config.max_words,
            *words.left_out,
        )
        provenance["left_out"] = words.left_out._asdict()
    return Counted(words, provenance)


class _Reading:
    """Reads the training documents of a corpus, and counts them as they pass."""

    def __init__(self, shards: Sequence[InputShard], corpus: CorpusConfig, progress: Progress | None) -> None:
        self._shards = shards
        self._corpus = corpus
        self._progress = progress
        self.skipped: list[str] = []
        self.num_documents = 0
        self.num_held_out = 0

    def documents(self) -> Iterator[Document]:
        """Yield all documents but the held-out ones; progress is in bytes of input."""
        done, total = 0, sum(shard.size for shard in self._shards)
        for shard in self._shards:
            self._report(done, total)
            for document in read_shard(shard, self._corpus, skipped=self.skipped):
                if is_held_out(document, self._corpus):
                    self.num_held_out += 1
                else:
                    self.num_documents += 1
                    yield document
                if self.num_documents % DOCUMENTS_BETWEEN_REPORTS == 0:
                    self._report(done, total)
            done += shard.size
        self._report(done, total)

    def _report(self, done: int, total: int) -> None:
        if self._progress:
            self._progress("count words", done, total, f"{self.num_documents:,} documents")

    def compare_held_out(self) -> None:
        """Warn when whole repositories, being few, hold out far more or far less than was asked."""
        asked, total = self._corpus.held_out_fraction, self.num_documents + self.num_held_out
        reached = self.num_held_out / total
        is_near = asked / MOST_OFF <= reached <= asked * MOST_OFF
        if self._corpus.held_out_by == "repository" and not is_near:
            log.warning(
                "held_out_fraction %g held out %.3g of the documents (%d of %d), since repositories are kept whole; "
                "another held_out_seed, or held_out_by document, may come closer",
                asked,
                reached,
                self.num_held_out,
                total,
            )

    def summary(self) -> dict[str, Any]:
        """What provenance tells of the corpus."""
        return {
            "documents": self.num_documents,
            "held_out_documents": self.num_held_out,
            "skipped_documents": len(self.skipped),
        }


def _as_sources(documents: Iterable[Sequence[str] | Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    number = -1
    for number, document in enumerate(documents):
        if isinstance(document, Mapping):
            columns = choose_columns(document, CorpusConfig())
            if isinstance(columns, str):
                raise TokenizerError(f"{columns}: document {number}")
            document = [document[name] if name else "" for name in columns]
        row = [] if isinstance(document, str) else [*document[:1], *(part or "" for part in document[1:3])]
        if len(row) < 3 or not all(isinstance(part, str) for part in row):
            raise TokenizerError(
                f"documents must be (text, repository, language) or mappings, got {document!r:.60} as document {number}"
            )
        yield row[0], row[1], row[2]
    if number < 0:
        raise TokenizerError("documents must hold at least one to train on, got none")
