"""Extending a tokenizer: more merges from new documents, after its own, whose ids stay what they are.

A new merge never spells a token that is there. Merges inside a stretch of text do not depend on what is around it as
long as no merge crosses its ends, so bytes that some token's own merges make into that token are that token wherever
they stand whole. Tokens that are not made from their own bytes would be the exception: `extend` refuses those.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tokenizer.config import EXTENSION_SETTINGS, TokenizerConfig
from tokenizer.corpus import CorpusConfig, InputShard
from tokenizer.counting.corpus import Counted, count_documents, count_shards
from tokenizer.errors import TokenizerError
from tokenizer.merging.known import find_cut_tokens
from tokenizer.merging.trainer import Merges
from tokenizer.progress import Progress
from tokenizer.training import merge_counted
from tokenizer.vocabulary import Tokenizer

__all__ = ["extend", "extend_on_shards"]

NUM_BYTES = 256


def extend(
    tokenizer: Tokenizer,
    documents: Iterable[Sequence[str] | Mapping[str, Any]],
    *,
    num_merges: int,
    progress: Progress | None = None,
    processes: int = 1,
    **settings: Any,
) -> Tokenizer:
    """Add merges from documents to a tokenizer; all of its tokens keep their ids, and new ones follow the last.

    Args:
        tokenizer: Any tokenizer, an imported one too.
        documents: As for ``train``. From the documents that the tokenizer was trained on, with the same settings, it
            is the tokenizer that one training would have made, but for the numbers of special tokens.
        num_merges: Merges to add; fewer when no pair is left, which is logged as a warning.
        progress: Called as ``progress(phase, done, total)``.
        processes: Processes that split and count; the result is the same for any number.
        **settings: Those of ``TokenizerConfig`` that EXTENSION_SETTINGS names.

    >>> base = Tokenizer([[97, 98]], ["<eod>"])
    >>> extend(base, [("abc abc", "r", "x")], num_merges=1).encode("abcab")
    [258, 256]
    """
    config = _extended_config(tokenizer, num_merges, settings)
    counted = count_documents(documents, config, progress=progress, processes=processes)
    return _extend_on_words(tokenizer, counted, config, progress)


def extend_on_shards(
    tokenizer: Tokenizer,
    shards: Sequence[InputShard],
    corpus: CorpusConfig,
    *,
    num_merges: int,
    progress: Progress | None = None,
    processes: int = 1,
    **settings: Any,
) -> Tokenizer:
    """Add merges from the documents of these shards that are not held out; see ``extend``."""
    config = _extended_config(tokenizer, num_merges, settings)
    counted = count_shards(shards, corpus, config, progress=progress, processes=processes)
    return _extend_on_words(tokenizer, counted, config, progress)


def _extended_config(tokenizer: Tokenizer, num_merges: int, settings: Mapping[str, Any]) -> TokenizerConfig:
    """Return the settings of the result; refuses what cannot be extended before anything is read."""
    for name in settings:
        if name not in EXTENSION_SETTINGS:
            known = ", ".join(EXTENSION_SETTINGS)
            raise TokenizerError(f"settings must be among {known}, got {name!r}; the rest stays that of the tokenizer")
    if num_merges < 1:
        raise TokenizerError(f"num_merges must be at least 1, got {num_merges}")
    if (cut := find_cut_tokens(tokenizer.pairs)).size:
        token = tokenizer.token_bytes[tokenizer.ids[cut[0]]]
        raise TokenizerError(
            f"tokenizer must make all its tokens from their own bytes, got {token!r}, which its merges leave in parts; "
            "such a tokenizer cannot be extended"
        )
    return TokenizerConfig(
        vocab_size=tokenizer.vocab_size + num_merges,
        pattern=tokenizer.pattern,
        special_tokens=tuple(tokenizer.special_tokens),
        num_reserved=0,
        **settings,
    )


def _extend_on_words(
    base: Tokenizer, counted: Counted, config: TokenizerConfig, progress: Progress | None
) -> Tokenizer:
    merges, provenance = merge_counted(counted, config, known_pairs=base.pairs, progress=progress)
    learned = NUM_BYTES + len(base.pairs)
    new_ids = np.arange(base.vocab_size, base.vocab_size + len(merges.pairs), dtype=np.int32)
    joined = _join(base, merges)
    return Tokenizer(
        joined.pairs,
        list(base.special_tokens),
        base.pattern,
        ids=np.concatenate((base.ids[:learned], new_ids, base.ids[learned:])),
        merges=joined,
        provenance=provenance
        | {"steps": joined.steps, "extends": {"fingerprint": base.fingerprint, **base.provenance}},
    )


def _join(base: Tokenizer, merges: Merges) -> Merges:
    """Return the merges of the tokenizer and the new ones; numbers that are not known are 0."""
    unknown = np.zeros(len(base.pairs), np.int64)
    old = base.merges or Merges(
        pairs=base.pairs, frequency=unknown, repositories=unknown, languages=unknown, steps=len(base.pairs)
    )
    columns = {
        name: np.concatenate((getattr(old, name), getattr(merges, name)))
        for name in ("pairs", "frequency", "repositories", "languages")
    }
    return Merges(**columns, steps=old.steps + merges.steps)
