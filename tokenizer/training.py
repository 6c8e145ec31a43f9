"""Training a tokenizer from documents: count words, merge pairs, add special tokens."""

import hashlib
import json
import logging
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tokenizer.config import TokenizerConfig
from tokenizer.corpus import CorpusConfig, Document, InputShard, is_held_out, list_shards, read_shard
from tokenizer.corpus.columns import choose_columns
from tokenizer.counting.counts import WordCounts, count_words
from tokenizer.errors import TokenizerError
from tokenizer.merging.priorities import resolve_priority
from tokenizer.merging.trainer import merge_words
from tokenizer.progress import Progress
from tokenizer.splitting.patterns import resolve_pattern
from tokenizer.vocabulary import Tokenizer

__all__ = ["train", "train_corpus", "train_on_shards"]

FORMAT = 1
"""Goes up when the same corpus and options give another tokenizer."""

DOCUMENTS_BETWEEN_REPORTS = 1000

log = logging.getLogger(__name__)


def train(
    documents: Iterable[Sequence[str] | Mapping[str, Any]],
    *,
    progress: Progress | None = None,
    processes: int = 1,
    **options: Any,
) -> Tokenizer:
    """Train a tokenizer on documents.

    Args:
        documents: (text, repository, language) each, or ``Document``, or rows of a Hugging Face dataset with a column
            ``text`` and perhaps ``repository`` (or ``repo``, ``repo_name``) and ``language`` (or ``lang``).
        progress: Called as ``progress(phase, done, total)``.
        processes: Processes that split and count; the result is the same for any number.
        **options: Settings of ``TokenizerConfig``.

    Returns:
        A tokenizer of ``vocab_size`` tokens, or fewer when no pair is left to merge, which is logged as a warning.

    >>> train([("ab ab", "r", "x")], vocab_size=258, special_tokens=["<eod>"], num_reserved=0).encode("abab")
    [256, 256]
    """
    if isinstance(options.get("special_tokens"), list):
        options["special_tokens"] = tuple(options["special_tokens"])
    config = TokenizerConfig(**options)
    counts = count_words(_as_sources(documents), config.pattern, progress=progress, processes=processes)
    return _train_on_words(counts, config, {}, progress)


def train_corpus(
    corpus: CorpusConfig, config: TokenizerConfig, *, cache: Path, progress: Progress | None = None, processes: int = 1
) -> Tokenizer:
    """Train on the documents of a corpus that are not held out, or open the result of an earlier training.

    The result is kept in ``cache/tokenizers/DIGEST``, by a digest of the corpus and the options: it appears there
    whole or not at all, and the same corpus and options give the same bytes again.
    """
    shards = list_shards(corpus)
    folder = Path(cache) / "tokenizers" / _digest(shards, corpus, config)
    if folder.exists():
        return Tokenizer.load(folder)
    tokenizer = train_on_shards(shards, corpus, config, progress=progress, processes=processes)
    tokenizer.save(folder)
    return tokenizer


def train_on_shards(
    shards: Sequence[InputShard],
    corpus: CorpusConfig,
    config: TokenizerConfig,
    *,
    progress: Progress | None = None,
    processes: int = 1,
) -> Tokenizer:
    """Train on the documents of these shards that are not held out."""
    resolve_pattern(config.pattern)  # a faulty expression shows before anything is read
    reading = _Reading(shards, corpus, progress)
    counts = count_words(reading.documents(), config.pattern, processes=processes)
    if reading.skipped:
        log.warning("left out %d documents; the first: %s", len(reading.skipped), reading.skipped[0])
    if not reading.num_documents:
        raise TokenizerError("corpus must hold at least one document to train on, got none; see languages and held_out")
    return _train_on_words(counts, config, {"corpus": reading.summary(_digest(shards, corpus, config))}, progress)


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

    def summary(self, digest: str) -> dict[str, Any]:
        """What provenance tells of the corpus."""
        return {
            "digest": digest,
            "documents": self.num_documents,
            "held_out_documents": self.num_held_out,
            "skipped_documents": len(self.skipped),
        }


def _train_on_words(
    counts: WordCounts, config: TokenizerConfig, provenance: dict[str, Any], progress: Progress | None
) -> Tokenizer:
    num_repositories, num_languages = len(counts.repository_names), len(counts.language_names)
    priority = resolve_priority(config.priority, num_repositories=num_repositories, num_languages=num_languages)
    merges = merge_words(
        counts,
        num_merges=config.num_merges,
        priority=priority,
        min_repositories=config.min_repositories,
        min_languages=config.min_languages,
        ties=config.ties,
        max_token_length=config.max_token_length,
        progress=progress,
    )
    if len(merges.pairs) < config.num_merges:
        missing = config.num_merges - len(merges.pairs)
        log.warning(
            "no pair is left to merge: the vocabulary has %d tokens, %d fewer than vocab_size %d",
            config.vocab_size - missing,
            missing,
            config.vocab_size,
        )
    provenance |= {
        "options": _options(config),
        "priority": priority,
        "repositories": num_repositories,
        "languages": num_languages,
        "steps": merges.steps,
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in ("dyadlm", "numpy")}},
    }
    return Tokenizer(merges.pairs, config.all_special_tokens, config.pattern, merges=merges, provenance=provenance)


def _as_sources(documents: Iterable[Sequence[str] | Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for number, document in enumerate(documents):
        if isinstance(document, Mapping):
            columns = choose_columns(document, CorpusConfig())
            if isinstance(columns, str):
                raise TokenizerError(f"{columns}: document {number}")
            document = [document[name] if name else "" for name in columns]
        if isinstance(document, str) or len(document) < 3:
            raise TokenizerError(
                f"documents must be (text, repository, language) or mappings, got {document!r:.60} as document {number}"
            )
        text, repository, language = document[:3]
        yield text, repository or "", language or ""


def _options(config: TokenizerConfig) -> dict[str, Any]:
    return {name: value for name, value in asdict(config).items() if name != "path"}


def _digest(shards: Sequence[InputShard], corpus: CorpusConfig, config: TokenizerConfig) -> str:
    reading = {name: value for name, value in asdict(corpus).items() if name not in ("paths", "shard_bytes")}
    inputs = [[shard.name, shard.identity] for shard in shards]
    content = json.dumps([FORMAT, inputs, reading, _options(config)], sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"
