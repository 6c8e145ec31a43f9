"""Training a tokenizer from documents: count words, merge pairs, add special tokens."""

import hashlib
import json
import logging
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tokenizer.config import TokenizerConfig
from tokenizer.corpus import CorpusConfig, InputShard, list_shards
from tokenizer.counting.corpus import Counted, count_documents, count_shards
from tokenizer.merging.priorities import resolve_priority
from tokenizer.merging.trainer import Merges, merge_words
from tokenizer.progress import Progress
from tokenizer.vocabulary import Tokenizer

__all__ = ["merge_counted", "train", "train_corpus", "train_on_shards"]

FORMAT = 2
"""Goes up when the same corpus and options give another tokenizer."""

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
    counted = count_documents(documents, config, progress=progress, processes=processes)
    return _train_on_words(counted, config, progress)


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
    counted = count_shards(shards, corpus, config, progress=progress, processes=processes)
    counted.provenance["corpus"]["digest"] = _digest(shards, corpus, config)
    return _train_on_words(counted, config, progress)


def _train_on_words(counted: Counted, config: TokenizerConfig, progress: Progress | None) -> Tokenizer:
    merges, provenance = merge_counted(counted, config, progress=progress)
    return Tokenizer(merges.pairs, config.all_special_tokens, config.pattern, merges=merges, provenance=provenance)


def merge_counted(
    counted: Counted,
    config: TokenizerConfig,
    *,
    known_pairs: np.ndarray | None = None,
    progress: Progress | None = None,
) -> tuple[Merges, dict[str, Any]]:
    """Make the merges that fill a vocabulary, after those that are known (int32[known, 2]).

    Returns them and the provenance of the result. Fewer than wanted, since no pair is left, is logged as a warning.
    """
    words = counted.words
    sources = {"num_repositories": len(words.repository_names), "num_languages": len(words.language_names)}
    priority = resolve_priority(config.priority, **sources)
    num_wanted = config.num_merges - (0 if known_pairs is None else len(known_pairs))
    merges = merge_words(
        words,
        num_merges=num_wanted,
        priority=priority,
        min_repositories=config.min_repositories,
        min_languages=config.min_languages,
        ties=config.ties,
        max_token_length=config.max_token_length,
        known_pairs=known_pairs,
        reserved=config.reserved_spellings,
        progress=progress,
    )
    if missing := num_wanted - len(merges.pairs):
        log.warning(
            "no pair is left to merge: the vocabulary has %d tokens, %d fewer than vocab_size %d%s",
            config.vocab_size - missing,
            missing,
            config.vocab_size,
            f"; {priority} never merges a pair of one repository, F does" if "logR" in priority else "",
        )
    return merges, counted.provenance | {
        "options": _options(config),
        "priority": priority,
        "repositories": sources["num_repositories"],
        "languages": sources["num_languages"],
        "steps": merges.steps,
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in ("dyadlm", "numpy")}},
    }


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
