"""Where a run is, and over what: saved with every checkpoint, compared before a run goes on from one."""

import ast
from typing import NamedTuple

from model import LlamaConfig
from training.errors import CheckpointError


class Position(NamedTuple):
    """Everything that a resumed run must share with the saved one."""

    step: int
    """Steps taken."""
    tokens: int
    """Real targets trained on."""
    data: str
    """Digest of the shards of the windows up to the step's own."""
    schedule: str
    """Digest of the curriculum, the lengths and the seed."""
    tokenizer: str
    """Fingerprint of the tokenizer."""
    model: str
    """The architecture, as `LlamaConfig(name=value, ...)`."""
    vocabulary: int | None = None
    """Tokens of the vocabulary; None in checkpoints of the first versions."""


ADVICE = {
    "vocabulary": "the tokenizer was changed; use the first, or start another run with train.run=...",
    "tokenizer": "the store was made with another tokenizer; use the first, or start another run with train.run=...",
    "model": "the model settings were changed; undo that, or start another run with train.run=...",
    "data": "the store was changed, or has grown since the run came to its end, whose last steps would be others; "
    "restore it, or go on in another run with train.initial_weights=RUN train.run=...",
    "schedule": "the data settings or the seed were changed; undo that, or start another run with train.run=...",
}
"""How to mend a difference. The tokenizer comes before the data, whose digest differs with it."""


def check_position(saved: Position, current: Position) -> None:
    """Refuse to resume over other data, another curriculum, tokenizer, vocabulary or model.

    Raises:
        CheckpointError: names what differs, both values and how to mend it.
    """
    for name, advice in ADVICE.items():
        was, now = getattr(saved, name), getattr(current, name)
        if name == "model":
            was, now = model_differences(was, now)
        if was != now and was is not None:
            raise CheckpointError(f"{name} must be that of the checkpoint, {was}, got {now}; {advice}")


def model_differences(was: str, now: str) -> tuple[str, str]:
    """The fields that differ, as they were and as they are; ("", "") when none does.

    A field that one of them does not name has its default there: fields are added to models as time goes by.

    >>> model_differences("LlamaConfig(num_layers=2, dim=64)", "LlamaConfig(num_layers=3, dim=64)")
    ('num_layers=2', 'num_layers=3')
    """
    defaults = model_fields(repr(LlamaConfig()))
    before, after = defaults | model_fields(was), defaults | model_fields(now)
    differing = [name for name in before | after if before.get(name) != after.get(name)]
    was, now = (
        ", ".join(f"{name}={fields.get(name, 'not known')}" for name in differing) for fields in (before, after)
    )
    return was, now


def model_fields(text: str) -> dict[str, str]:
    """The fields of `LlamaConfig(name=value, ...)`, each value as it is written.

    Raises:
        CheckpointError: it is written otherwise.
    """
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        call = None
    if not isinstance(call, ast.Call):
        raise CheckpointError(f"model of a checkpoint must be LlamaConfig(name=value, ...), got {text[:80]!r}")
    return {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg is not None}
