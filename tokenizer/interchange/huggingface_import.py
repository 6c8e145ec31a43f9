"""Reading ``tokenizer.json``: our own, and those of other byte-level BPE tokenizers."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.interchange.tiktoken_ranks import pairs_of_ranks
from tokenizer.merging.known import find_cut_tokens
from tokenizer.merging.ties import byte_alphabet
from tokenizer.splitting.patterns import PATTERNS, warn_of_engines

if TYPE_CHECKING:
    from tokenizer.vocabulary import Tokenizer

__all__ = ["from_tokenizer_json", "import_tokenizer_json", "parse_json"]

log = logging.getLogger(__name__)

NUM_BYTES = 256
COMPOSING = ("NFC", "NFKC")
"""Normalizers that leave most text as it is."""

# What Digits(individual_digits=True) before GPT-2's pattern gives (StarCoder): digits also end the text before them.
GPT2_WITH_SINGLE_DIGITS = r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+"


def import_tokenizer_json(path: Path, special_tokens: Sequence[str], *, drop_normalizer: bool) -> "Tokenizer":
    """Make the tokenizer of a file, or of the folder it is in; see ``Tokenizer.from_huggingface``."""
    from tokenizer.vocabulary import Tokenizer

    path = path / "tokenizer.json" if path.is_dir() else path
    content = _read_json(path)
    pairs, specials, pattern, ids = from_tokenizer_json(content, path, drop_normalizer=drop_normalizer)
    _warn(content, pattern)
    ids = np.concatenate((ids, np.arange(len(ids), len(ids) + len(special_tokens), dtype=np.int32)))
    provenance = {"imported": path.name, "normalizer": "dropped" if drop_normalizer else None}
    return Tokenizer(pairs, [*specials, *special_tokens], pattern, ids=ids, provenance=provenance)


def _warn(content: dict[str, Any], pattern: str) -> None:
    """Say what is not taken over, and where ids of some texts might differ."""
    if pattern != GPT2_WITH_SINGLE_DIGITS:
        warn_of_engines(pattern)
    ordinary = [token["content"] for token in content.get("added_tokens") or [] if not token.get("special")]
    if ordinary:
        log.warning(
            "%d added tokens are special here: text that spells them becomes other ids unless they are allowed, as %r",
            len(ordinary),
            ordinary[0],
        )
    for name in ("truncation", "padding"):
        if content.get(name):
            log.warning("%s of the tokenizer is left out: texts are encoded whole", name)


def from_tokenizer_json(
    content: dict[str, Any], path: Path, *, drop_normalizer: bool = False
) -> tuple[np.ndarray, list[str], str, np.ndarray]:
    """Read (pairs int32[merges, 2], special tokens, pattern, ids int32[tokens]), as ``Tokenizer`` takes them.

    Raises TokenizerError for any tokenizer whose ids ours would not be.
    """
    try:
        model, added = content["model"], content.get("added_tokens") or []
        _check(content, model, added, drop_normalizer)
        pattern = _read_pattern(content["pre_tokenizer"])
        specials = {token["content"]: token["id"] for token in sorted(added, key=lambda token: token["id"])}
        vocab = {token: number for token, number in model["vocab"].items() if token not in specials}
        merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
        pairs, tokens = _read_merges(merges)
        ids = np.array([*(vocab[token] for token in tokens), *specials.values()], np.int32)
        if extra := vocab.keys() - set(tokens):
            raise RefusalError(f"{len(extra)} tokens that no merge makes, as {min(extra)!r}")
        if not np.array_equal(np.sort(ids), np.arange(len(ids))):
            raise RefusalError(f"{len(ids)} tokens with ids up to {ids.max()}, so with gaps")
        if model.get("ignore_merges") and (cut := find_cut_tokens(pairs)).size:
            raise RefusalError(f"ignore_merges with a token that merges do not make, {tokens[cut[0]]!r}")
    except RefusalError as refusal:
        raise TokenizerError(f"tokenizer.json must be byte-level BPE, got {refusal}: {path}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"{type(error).__name__} at {error}"
        raise TokenizerError(f"tokenizer.json must be byte-level BPE, got {found}: {path}") from None
    return pairs, list(specials), pattern, ids


class RefusalError(ValueError):
    """What was found instead of byte-level BPE."""


def _check(content: dict[str, Any], model: dict[str, Any], added: list[dict[str, Any]], drop_normalizer: bool) -> None:
    if model.get("type", "BPE") != "BPE":
        raise RefusalError(f"model {model['type']}")
    for name in ("byte_fallback", "continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(name):
            raise RefusalError(f"{name} {model[name]!r}")
    _check_normalizer(content.get("normalizer"), drop_normalizer)
    for token in added:
        if not token["content"].strip():
            raise RefusalError(f"added token {token['content']!r}, which ordinary text spells")


def _check_normalizer(normalizer: dict[str, Any] | None, is_dropped: bool) -> None:
    """Refuse a normalizer; one that only composes characters may be dropped, since most text is composed already."""
    if normalizer is None:
        return
    steps = normalizer["normalizers"] if normalizer["type"] == "Sequence" else [normalizer]
    names = [step["type"] for step in steps]
    is_droppable = all(name in COMPOSING for name in names)
    if not (is_dropped and is_droppable):
        hint = ", which may be left out by --drop-normalizer true" if is_droppable else ""
        raise RefusalError(f"normalizer {', '.join(names)}{hint}")


def _read_merges(merges: list[tuple[str, ...]]) -> tuple[np.ndarray, list[str]]:
    """Return (pairs int32[merges, 2], all learned tokens in the letters of the byte alphabet, bytes first)."""
    letters = byte_alphabet()
    places = {letter: byte for byte, letter in enumerate(letters)}
    made = list(dict.fromkeys(left + right for left, right in merges))
    if len(made) < len(merges):  # a token in every way to make it, as in files converted from tiktoken ranks
        spelled = [bytes(places[letter] for letter in token) for token in made]
        pairs, tokens = pairs_of_ranks(spelled), letters + made
        if not {(tokens[left], tokens[right]) for left, right in pairs.tolist()} <= set(merges):
            raise RefusalError("merges that never make one of their tokens")
        return pairs, tokens
    places |= {token: NUM_BYTES + number for number, token in enumerate(made)}
    pairs = np.array([(places[left], places[right]) for left, right in merges], np.int32).reshape(-1, 2)
    is_late = pairs.max(axis=1, initial=0) >= NUM_BYTES + np.arange(len(pairs))
    if is_late.any() or len(places) != NUM_BYTES + len(made):
        raise RefusalError("a merge of tokens that are made later")
    return pairs, letters + made


def _read_pattern(pre_tokenizer: dict[str, Any] | None) -> str:
    if pre_tokenizer is None:
        raise RefusalError("no pre-tokenizer")
    steps = pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    *splits, last = steps
    if last["type"] != "ByteLevel" or last.get("add_prefix_space"):
        raise RefusalError(f"pre-tokenizer {last['type']}" + " with add_prefix_space" * (last["type"] == "ByteLevel"))
    match splits, last.get("use_regex", True):
        case [], has_pattern:
            return PATTERNS["gpt2"] if has_pattern else ""
        case [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}], False:
            return pattern
        case [{"type": "Digits", "individual_digits": True}], True:
            return GPT2_WITH_SINGLE_DIGITS
    raise RefusalError(f"pre-tokenizers {', '.join(step['type'] for step in steps)} together")


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raises TokenizerError for anything else."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"{path.name} must be a JSON file, got {error.strerror}: {path}") from None
    return parse_json(data, path)


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """Parse a JSON object that is the content of a file; raises TokenizerError for anything else."""
    try:
        content = json.loads(data)
    except ValueError as error:
        raise TokenizerError(f"{path.name} must be a JSON file, got {error}: {path}") from None
    except RecursionError:
        raise TokenizerError(f"{path.name} must be a JSON file, got one that is nested too deeply: {path}") from None
    if not isinstance(content, dict):
        raise TokenizerError(f"{path.name} must be a JSON object, got {type(content).__name__}: {path}")
    return content
