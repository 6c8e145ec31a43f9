"""The documents that a command judges models on: named ones, those of a store, or what the models hold out."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizer.commands.documents import DocumentReader

if TYPE_CHECKING:
    from evaluation.held_out_documents import Documents
    from evaluation.subject import Subject
    from tokenizer.progress import Progress

__all__ = ["read_documents"]


def read_documents(options: argparse.Namespace, subjects: dict[str, "Subject"], progress: "Progress") -> "Documents":
    """Read those of `--on` or `--store`, else what all models hold out; `--num-documents` of them, by `--seed`.

    Raises:
        EvaluationError: there are none, or the models hold out different ones.
    """
    from evaluation.held_out_documents import find_held_out, store_documents, take_documents

    choice = options.num_documents, options.seed
    if options.on:
        reader = DocumentReader(options, options.on)
        names = ", ".join(Path(path).name or path for path in options.on)
        documents = take_documents(reader.read(progress), f"read from {names}", *choice)
        reader.report_skipped()
        return documents
    if options.store is None:
        store, source = find_held_out([subject.place for subject in subjects.values()])
    else:
        from dataservice import open_store

        whole = open_store(options.store)
        store = whole.held_out or whole
        source = f"{'all' if whole.held_out is None else 'held out'} of {options.store}"
    return take_documents(store_documents(store), source, *choice)
