"""Smaller vocabularies from a large one, and what they cost in compression.

Merges are removed in an order in which nothing is removed before what is made of it, so what remains is a whole
vocabulary, and every token of it is still made by the same merges:

- ``end``: the last merges go first;
- ``leaves``: of the tokens that are part of no other merge, that of the lowest frequency goes first, and its frequency
  goes to its two parts (Purason et al. 2026);
- a list of tokens that are to go, such as those that a model has hardly learnt, as far as nothing is made of them.

A word whose encoding holds no removed token is encoded as before: a removed token that were made on the way would stay,
or end in another removed one. So only the other words are encoded anew.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Literal, NamedTuple

import numpy as np

from tokenizer.counting.counts import WordCounts
from tokenizer.errors import TokenizerError
from tokenizer.measures.encoded_words import EncodedWords, check_text, encode_counts
from tokenizer.measures.removal import Removal
from tokenizer.merging.trainer import Merges
from tokenizer.progress import Progress
from tokenizer.ragged import offsets_of
from tokenizer.vocabulary import NUM_BYTES, Tokenizer

__all__ = ["By", "CurvePoint", "check_sizes", "order_leaves", "prune", "pruning_curve", "remove_tokens", "spread_sizes"]

By = Literal["end", "leaves"]


class CurvePoint(NamedTuple):
    """What a pruned vocabulary makes of documents."""

    vocab_size: int  # special tokens too
    num_tokens: int  # of all documents, encoded by it
    compression_rate: float  # bytes a token


def prune(tokenizer: Tokenizer, vocab_size: int, *, by: By = "end", counts: WordCounts | None = None) -> Tokenizer:
    """Return a tokenizer of exactly `vocab_size` tokens, special ones too.

    Bytes and special tokens all stay. The remaining merges keep their order and what training knew of them; ids are
    those of a trained tokenizer: bytes, merges, special tokens, also where the original numbered its tokens otherwise.

    Args:
        tokenizer: The original, which stays as it is.
        vocab_size: Tokens wanted.
        by: Which merges go first.
        counts: For `leaves`, the words of documents (`count_words(documents, tokenizer.pattern)`), whose encoding gives
            the frequencies.

    Raises TokenizerError for a size that pruning cannot give, and when `counts` are wanted and missing or empty.
    """
    check_sizes(tokenizer, [vocab_size])
    num_removed = tokenizer.vocab_size - vocab_size
    is_kept = np.ones(len(tokenizer.pairs), bool)
    is_kept[_removal_order(tokenizer, by, counts)[:num_removed]] = False
    return _keep(tokenizer, is_kept, _provenance(tokenizer, by, counts))


def remove_tokens(tokenizer: Tokenizer, removal: Removal) -> Tokenizer:
    """Return a tokenizer without the tokens that were listed and can go (`tokenizer.measures.removal`); as `prune`."""
    names = {"listed_parts_kept": removal.num_parts, "listed_others_kept": removal.num_fixed}
    return _keep(tokenizer, removal.is_kept, _made_from(tokenizer, {"by": "list", **names}))


def _keep(tokenizer: Tokenizer, is_kept: np.ndarray, provenance: dict[str, Any]) -> Tokenizer:
    """The tokenizer of the merges that are kept, bool[merges]."""
    kept = np.flatnonzero(is_kept)
    pairs = _renumber(tokenizer.pairs, is_kept)
    merges = tokenizer.merges and Merges(
        pairs=pairs,
        frequency=tokenizer.merges.frequency[kept],
        repositories=tokenizer.merges.repositories[kept],
        languages=tokenizer.merges.languages[kept],
        steps=tokenizer.merges.steps,
    )
    return Tokenizer(pairs, list(tokenizer.special_tokens), tokenizer.pattern, merges=merges, provenance=provenance)


def pruning_curve(
    tokenizer: Tokenizer,
    counts: WordCounts,
    sizes: Sequence[int],
    *,
    by: By = "end",
    measured_on: WordCounts | None = None,
    progress: Progress | None = None,
) -> list[CurvePoint]:
    """Return the exact compression of vocabularies pruned to each of `sizes`, the largest first.

    Args:
        tokenizer: The original.
        counts: The words of documents (`count_words(documents, tokenizer.pattern)`), which say which leaves go.
        sizes: Tokens of the pruned vocabularies, special ones too, in any order.
        by: Which merges go first.
        measured_on: The words of the documents that are encoded; those of `counts` without.
        progress: Called as progress("prune by BY", points, len(sizes)).

    Raises TokenizerError for a size that pruning cannot give, and for documents without text.
    """
    check_sizes(tokenizer, sizes)
    measured = counts if measured_on is None else measured_on
    check_text(measured)
    num_bytes = int(np.diff(measured.offsets) @ measured.counts)
    points = []
    largest_first = sorted(set(sizes), reverse=True)
    removals = [tokenizer.vocab_size - size for size in largest_first]
    order = _removal_order(tokenizer, by, counts)
    for size, encoded in zip(largest_first, _encode_pruned(tokenizer.pairs, order, removals, measured), strict=True):
        points.append(CurvePoint(size, encoded.num_tokens, num_bytes / encoded.num_tokens))
        if progress:
            progress(f"prune by {by}", len(points), len(largest_first))
    return points


def order_leaves(pairs: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Return all merges, int64[merges], in the order in which pruning by leaves removes them.

    Args:
        pairs: int32[merges, 2], as `Tokenizer.pairs`.
        frequencies: int64[256 + merges], how often each token occurs in encoded documents.

    Of leaves of equal frequency, the latest merge goes first.

    >>> order_leaves(np.array([[97, 98], [256, 99], [100, 101]]), np.array([0] * 256 + [5, 9, 7])).tolist()
    [2, 1, 0]
    """
    parts = pairs.tolist()
    scores = frequencies.tolist()
    uses = np.bincount(pairs.reshape(-1), minlength=NUM_BYTES + len(parts)).tolist()
    # A leaf's score is final: it grows only when something made of the token is removed, which is before it is a leaf.
    leaves = [(scores[NUM_BYTES + merge], -merge) for merge in range(len(parts)) if not uses[NUM_BYTES + merge]]
    heapify(leaves)
    order = []
    while leaves:
        score, negative = heappop(leaves)
        order.append(-negative)
        for part in parts[-negative]:
            scores[part] += score
            uses[part] -= 1
            if part >= NUM_BYTES and not uses[part]:
                heappush(leaves, (scores[part], NUM_BYTES - part))
    return np.array(order, np.int64)


def spread_sizes(tokenizer: Tokenizer, vocab_size: int, num_sizes: int) -> list[int]:
    """Return up to `num_sizes` sizes evenly from `vocab_size` to the whole vocabulary, both with it."""
    return np.unique(np.linspace(vocab_size, tokenizer.vocab_size, num_sizes).round().astype(int)).tolist()


def check_sizes(tokenizer: Tokenizer, sizes: Sequence[int]) -> None:
    """Raise TokenizerError unless the vocabulary can be pruned to each of the sizes."""
    least = tokenizer.vocab_size - len(tokenizer.pairs)
    for size in sizes:
        if not least <= size <= tokenizer.vocab_size:
            raise TokenizerError(
                f"vocab_size must be from {least} (256 bytes and {len(tokenizer.special_tokens)} special tokens) to "
                f"{tokenizer.vocab_size}, what there is to prune, got {size}"
            )


def _removal_order(tokenizer: Tokenizer, by: By, counts: WordCounts | None) -> np.ndarray:
    if by == "end":
        return np.arange(len(tokenizer.pairs))[::-1]
    if by != "leaves":
        raise TokenizerError(f"by must be end or leaves, got {by!r}")
    if counts is None:
        raise TokenizerError("documents must be given to prune by leaves, got none; name them by on")
    check_text(counts)
    encoded = encode_counts(counts, tokenizer.pairs)
    return order_leaves(tokenizer.pairs, encoded.frequencies(NUM_BYTES + len(tokenizer.pairs)))


def _encode_pruned(
    pairs: np.ndarray, order: np.ndarray, removals: Sequence[int], counts: WordCounts
) -> Iterator[EncodedWords]:
    """Yield the words encoded without the first n merges of `order`, for each n of `removals`, which rise."""
    encoded = encode_counts(counts, pairs)
    is_kept = np.ones(len(pairs), bool)
    removed = 0
    for num_removed in removals:
        is_removed = np.zeros(NUM_BYTES + len(pairs), bool)
        is_removed[NUM_BYTES + order[removed:num_removed]] = True
        is_kept[order[removed:num_removed]] = False
        removed = num_removed
        is_changed = encoded.hold(is_removed)
        kept_tokens = np.concatenate((np.arange(NUM_BYTES), NUM_BYTES + np.flatnonzero(is_kept)))
        anew = encode_counts(counts, _renumber(pairs, is_kept), encoded.words[is_changed])
        encoded = _join(encoded.take(np.flatnonzero(~is_changed)), anew._replace(tokens=kept_tokens[anew.tokens]))
        yield encoded


def _join(first: EncodedWords, second: EncodedWords) -> EncodedWords:
    lengths = np.concatenate((np.diff(first.offsets), np.diff(second.offsets)))
    return EncodedWords(
        tokens=np.concatenate((first.tokens, second.tokens)),
        offsets=offsets_of(lengths),
        words=np.concatenate((first.words, second.words)),
        counts=np.concatenate((first.counts, second.counts)),
    )


def _renumber(pairs: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    """Return the pairs (int32) of the merges that are kept, bool[merges], in the ids that these give."""
    ids = np.concatenate((np.arange(NUM_BYTES), NUM_BYTES - 1 + np.cumsum(is_kept)))
    return ids[pairs[is_kept]].astype(np.int32)


def _provenance(tokenizer: Tokenizer, by: By, counts: WordCounts | None) -> dict[str, Any]:
    how: dict[str, Any] = {"by": by}
    if by == "leaves" and counts is not None:
        how["words"] = {
            "occurrences": int(counts.counts.sum()),
            "bytes": int(np.diff(counts.offsets) @ counts.counts),
            "repositories": len(counts.repository_names),
            "languages": len(counts.language_names),
        }
    return _made_from(tokenizer, how)


def _made_from(tokenizer: Tokenizer, how: dict[str, Any]) -> dict[str, Any]:
    original = {"fingerprint": tokenizer.fingerprint, "vocab_size": tokenizer.vocab_size}
    steps = {"steps": tokenizer.merges.steps} if tokenizer.merges else {}
    return {"pruned": how | {"from": original}, "original": tokenizer.provenance, **steps}
