"""The settings of runs, as tables: those that are not the defaults, or those in which runs differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizer.measures.page import Table

__all__ = ["count_parameters", "differing_settings", "settings_table", "spell_setting"]

LONGEST = 200
"""Characters of a value that is shown."""


def settings_table(settings: Mapping[str, Any]) -> list[Table]:
    """The settings of a run that are not the defaults; no table where nothing is known of them."""
    if not settings:
        return []
    defaults = _defaults()
    rows = [(key, spell_setting(value), spell_setting(defaults.get(key))) for key, value in settings.items()]
    rows = [row for row in rows if row[1] != row[2]]
    return [Table(columns=("setting", "value", "default"), rows=rows, caption="Settings that are not the defaults")]


def differing_settings(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """(key, value in each run) of the settings in which they differ; a run that does not name one has its default."""
    defaults = _defaults()
    keys = dict.fromkeys(key for settings in runs for key in settings if key != "train.run")
    rows = [(key, *(spell_setting(settings.get(key, defaults.get(key))) for settings in runs)) for key in keys]
    return [row for row in rows if len(set(row[1:])) > 1]


def count_parameters(settings: Mapping[str, Any], vocab_size: int | None) -> int | None:
    """Parameters of the model that the settings describe; None where they, or the tokens, are not known."""
    from model import LlamaConfig, ModelError
    from model.counts import count_params

    described = {key.removeprefix("model."): value for key, value in settings.items() if key.startswith("model.")}
    if not described or vocab_size is None:
        return None
    try:
        return count_params(LlamaConfig(**described), vocab_size)
    except (TypeError, ValueError, ModelError):
        return None


def _defaults() -> dict[str, Any]:
    from training.config import Config, resolved_settings

    sections = resolved_settings(Config())
    return {f"{section}.{name}": value for section, values in sections.items() for name, value in values.items()}


def spell_setting(value: Any) -> str:
    """A value as one writes it in a config."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, dict):
        value = [f"{key}: {item}" for key, item in value.items()]
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value).replace("\n", "\\n")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
