"""The special tokens around a document: what a model sees before its first token and predicts after its last."""

import json
from typing import NamedTuple

from evaluation.errors import EvaluationError
from evaluation.subject import Subject

__all__ = ["Boundaries", "find_begin", "find_boundaries"]

EOD = "<eod>"


class Boundaries(NamedTuple):
    """Ids of the two."""

    begin: int
    end: int


def find_boundaries(subject: Subject, begin: str | None = None, end: str | None = None) -> Boundaries:
    """Those of a model: the special tokens of these names, else <eod> for both, else what config.json has for them.

    Raises:
        EvaluationError: there is no such special token, or nothing says what stands there.
    """
    return Boundaries(find_begin(subject, begin), _find(subject, end, ("eos_token_id",), "end"))


def find_begin(subject: Subject, begin: str | None = None) -> int:
    """What a model sees before the first token, for uses that have no end.

    Raises:
        EvaluationError: as `find_boundaries`.
    """
    return _find(subject, begin, ("bos_token_id", "eos_token_id"), "begin")


def _find(subject: Subject, name: str | None, keys: tuple[str, ...], option: str) -> int:
    """The special token of a name; without one <eod>, else the first of these that config.json has."""
    special = subject.tokenizer.special_tokens
    if name is None and EOD not in special:
        told = _told_by_config(subject)
        for key in keys:
            if key in told:
                return _check(told[key], key, subject, option)
    if (name or EOD) not in special:
        known = ", ".join(special) or "none"
        raise EvaluationError(
            f"{option} must be a special token of {subject.place} ({known}), got {name or EOD!r}; "
            f"name one with --{option}"
        )
    return special[name or EOD]


def _check(told: int, key: str, subject: Subject, option: str) -> int:
    rows = subject.params["embedding"].shape[0]
    if not 0 <= told < rows:
        raise EvaluationError(
            f"{key} of {subject.place / 'config.json'} must be an id of the model, from 0 to {rows - 1:,}, got "
            f"{told}; mend it, or name a special token with --{option}"
        )
    return told


def _told_by_config(subject: Subject) -> dict[str, int]:
    """Ids of config.json of a folder of transformers; of several the first."""
    path = subject.place / "config.json"
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    told = {key: content.get(key) for key in ("bos_token_id", "eos_token_id")}
    firsts = {key: value[0] if isinstance(value, list) and value else value for key, value in told.items()}
    return {key: value for key, value in firsts.items() if isinstance(value, int) and not isinstance(value, bool)}
