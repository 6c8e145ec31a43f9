"""Which columns of a table hold a document's text and source."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from tokenizer.corpus.config import CorpusConfig

__all__ = ["NAMING_FAULT", "DocumentColumns", "choose_columns"]

NAMING_FAULT = "_column must "
"""In every line about a column that a setting names wrongly, which is wrong for all documents."""

REPOSITORY = ("repository", "repo", "repo_name")
LANGUAGE = ("language", "lang", "programming_language")
PATH = ("path", "file_path", "file")


class DocumentColumns(NamedTuple):
    """Names of columns; None where a table has nothing to say."""

    text: str
    repository: str | None
    language: str | None
    path: str | None


def choose_columns(names: Iterable[str], config: CorpusConfig) -> DocumentColumns | str:
    """Choose among a table's columns; the answer is a line of text when a column that the config names is missing."""
    present = list(names)
    for setting in ("text_column", "repository_column", "language_column", "path_column"):
        wanted = getattr(config, setting)
        if wanted is not None and wanted not in present:
            best = difflib.get_close_matches(wanted, present, n=1)
            hint = f" (did you mean {best[0]}?)" if best else ""
            return f"{setting} must be one of {', '.join(present)}{hint}, got {wanted!r}"
    return DocumentColumns(
        config.text_column,
        config.repository_column or _first(REPOSITORY, present),
        config.language_column or _first(LANGUAGE, present),
        config.path_column or _first(PATH, present),
    )


def _first(candidates: tuple[str, ...], present: list[str]) -> str | None:
    return next((name for name in candidates if name in present), None)
