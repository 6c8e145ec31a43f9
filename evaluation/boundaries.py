"""The special tokens around a document: what a model sees before its first token and predicts after its last."""

import json
from typing import NamedTuple

from evaluation.errors import EvaluationError
from evaluation.subject import Subject

__all__ = ["Boundaries", "find_boundaries"]

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
    told = _told_by_config(subject)
    return Boundaries(
        _find(subject, begin, told.get("bos_token_id", told.get("eos_token_id")), "begin"),
        _find(subject, end, told.get("eos_token_id"), "end"),
    )


def _find(subject: Subject, name: str | None, told: int | None, option: str) -> int:
    special = subject.tokenizer.special_tokens
    if name is None and EOD not in special and told is not None:
        return told
    if (name or EOD) not in special:
        known = ", ".join(special) or "none"
        raise EvaluationError(
            f"{option} must be a special token of {subject.place} ({known}), got {name or EOD!r}; "
            f"name one with --{option}"
        )
    return special[name or EOD]


def _told_by_config(subject: Subject) -> dict[str, int]:
    """Ids of config.json of a folder of transformers; of several the first."""
    path = subject.place / "config.json"
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    told = {key: content.get(key) for key in ("bos_token_id", "eos_token_id")}
    firsts = {key: value[0] if isinstance(value, list) and value else value for key, value in told.items()}
    return {key: value for key, value in firsts.items() if isinstance(value, int)}
