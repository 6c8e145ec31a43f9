"""Whose a place is: what a run, a store, a tokenizer or a model's folder is made of, no other output may replace.

Folders are told by the names in them, so nothing of the packages that write them is needed.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

__all__ = ["Owner", "find_owner", "is_tokenizer", "kind_of"]

RUN_FILES = """
.config.yaml.tmp .lock checkpoints config.yaml events.* loss.png metrics.jsonl profile stacks*.txt stores summary.json
tokenizer tracking.json wandb
"""
STORE_FILES = "demand held_out incoming indexes lock manifest.json removed shards shards.parquet tokenizer"
TOKENIZER_FILES = "added_tokens.json merges.* special_tokens_map.json tokenizer* vocab.*"
"""Of a tokenizer of transformers; the whole folder of ours is the tokenizer's, since it is replaced as a whole."""
MODEL_FILES = f"""
*.bin *.bin.index.json *.gguf *.pt *.pth *.py *.safetensors *.safetensors.index.json .gitattributes LICENSE README.md
chat_template* config.json generation_config.json {TOKENIZER_FILES}
"""


class Owner(NamedTuple):
    """A folder of a kind."""

    kind: str
    """Such as "a run"."""
    folder: Path


class _Kind(NamedTuple):
    name: str
    is_there: Callable[[Path], bool]
    files: str
    """Patterns, between spaces, of the names in the folder that are its own; whatever is below them is, too."""

    def owns(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.files.split())


def find_owner(path: Path) -> Owner | None:
    """The innermost folder made by us or by transformers that a place is part of, whether or not anything is there.

    A file that others have put into such a folder, as a page into a run's, has no owner, nor has the folder itself.
    """
    # A link may be part of something, and so may what it leads to.
    for place in dict.fromkeys((Path(os.path.abspath(path)), Path(os.path.realpath(path)))):  # noqa: PTH100
        for child, folder in zip((place, *place.parents), place.parents, strict=False):
            for kind in KINDS:
                if kind.owns(child.name) and kind.is_there(folder):
                    return Owner(kind.name, folder)
    return None


def kind_of(folder: Path) -> str | None:
    """What a folder is, such as "a run"; None for one that neither we nor transformers made."""
    return next((kind.name for kind in KINDS if kind.is_there(folder)), None)


def is_tokenizer(folder: Path) -> bool:
    """Whether a folder is that of a tokenizer of ours."""
    return _has(folder, "tokenizer.json") and _has(folder, "provenance.json")


def _is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, perhaps of one that did not come far."""
    has_more = _has(folder, "checkpoints") or _has(folder, ".lock")
    return _has(folder, "metrics.jsonl") or (_has(folder, "config.yaml") and has_more)


def _is_store(folder: Path) -> bool:
    is_begun = _has(folder, "lock") and (_has(folder, "shards") or _has(folder, "incoming"))
    return is_begun or (_has(folder, "manifest.json") and _has(folder, "shards.parquet"))


def _is_model(folder: Path) -> bool:
    return _has(folder, "config.json") and any(name.endswith((".safetensors", ".bin")) for name in _names(folder))


def _is_tokenizer_of_transformers(folder: Path) -> bool:
    return _has(folder, "tokenizer.json") and _has(folder, "tokenizer_config.json")


def _is_checkpoint(folder: Path) -> bool:
    return _has(folder, "_CHECKPOINT_METADATA")


def _is_checkpoints(folder: Path) -> bool:
    return _has(folder, "owner") and any(name.isdigit() for name in _names(folder))


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208
    return []


def _has(folder: Path, name: str) -> bool:
    return os.path.exists(folder / name)  # noqa: PTH110  (never raises)


KINDS = (
    _Kind("a tokenizer", is_tokenizer, "*"),
    _Kind("a checkpoint", _is_checkpoint, "*"),
    _Kind("a folder of checkpoints", _is_checkpoints, "owner"),
    _Kind("a run", _is_run, RUN_FILES),
    _Kind("a store", _is_store, STORE_FILES),
    _Kind("a model", _is_model, MODEL_FILES),
    _Kind("a tokenizer", _is_tokenizer_of_transformers, TOKENIZER_FILES),
)
