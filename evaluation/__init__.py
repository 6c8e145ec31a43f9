"""Trained models and tokenizers judged: perplexity, choices, long contexts, under-trained tokens, pages to look at.

    subject = evaluation.open_subject("runs/demo")
    evaluation.score(subject, [subject.tokenizer.encode("def main():")])

Names are imported when first used, so that a command line answers at once.
"""

# Before all else: from here on, Ctrl-C ends a command in one line.
from tokenizer import interrupts as _interrupts  # noqa: F401, I001

from importlib import import_module
from typing import TYPE_CHECKING

from evaluation.errors import EvaluationError

if TYPE_CHECKING:
    from evaluation.scoring import Scored, score
    from evaluation.subject import Subject, open_subject

__all__ = ["EvaluationError", "Scored", "Subject", "open_subject", "score"]

_MODULES = {"Scored": "scoring", "Subject": "subject", "open_subject": "subject", "score": "scoring"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'evaluation' has no attribute {name!r}")
    return getattr(import_module(f"evaluation.{_MODULES[name]}"), name)
