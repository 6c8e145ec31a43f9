"""Under-trained tokens: which ones a model has hardly learnt, and what was known of them before.

    found = find_undertrained(open_subject("runs/demo"))
    found.verified                     # ids, or None for a model that cannot copy

Names are imported when first used, so that a command line answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evaluation.undertrained.export import removal_json, to_json
    from evaluation.undertrained.finding import Settings, Undertrained, check_subject, find_undertrained
    from evaluation.undertrained.occurrences import Occurrences, find_occurrences
    from evaluation.undertrained.page import make_sections
    from evaluation.undertrained.prompts import repetition_documents
    from evaluation.undertrained.tables import make_tables

__all__ = [
    "Occurrences",
    "Settings",
    "Undertrained",
    "check_subject",
    "find_occurrences",
    "find_undertrained",
    "make_sections",
    "make_tables",
    "removal_json",
    "repetition_documents",
    "to_json",
]

_MODULES = {
    "Occurrences": "occurrences",
    "Settings": "finding",
    "Undertrained": "finding",
    "check_subject": "finding",
    "find_occurrences": "occurrences",
    "find_undertrained": "finding",
    "make_sections": "page",
    "make_tables": "tables",
    "removal_json": "export",
    "repetition_documents": "prompts",
    "to_json": "export",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'evaluation.undertrained' has no attribute {name!r}")
    return getattr(import_module(f"evaluation.undertrained.{_MODULES[name]}"), name)
