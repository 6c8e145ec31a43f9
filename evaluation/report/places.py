"""What is reported on: runs and tokenizers, told apart by what is in their folders."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evaluation.errors import EvaluationError
from evaluation.report.run_record import RunRecord, is_run_folder, read_run
from evaluation.report.tokenizer_sections import OpenedTokenizer
from tokenizer import Tokenizer
from tokenizer.measures.subject import open_subject

__all__ = ["Subjects", "name_places", "open_places"]


class Subjects(NamedTuple):
    """What a page is about."""

    runs: list[RunRecord]
    tokenizers: dict[str, OpenedTokenizer]
    """By name."""


def open_places(places: Sequence[Path]) -> Subjects:
    """Open runs and tokenizers, each in the order given.

    Raises:
        EvaluationError: a place is neither, or there are two of the same.
        TokenizerError: a tokenizer is damaged.
    """
    runs: list[RunRecord] = []
    tokenizers: dict[str, OpenedTokenizer] = {}
    for place, name in zip(places, name_places(places), strict=True):
        if is_run_folder(place):
            runs.append(read_run(place, name))
        elif place.is_file() or (place / "tokenizer.json").is_file():
            tokenizers[name] = _open_tokenizer(place)
        else:
            from training.weights import name_run_of

            raise EvaluationError(
                "place must be the folder of a run (config.yaml, metrics.jsonl) or of a tokenizer (tokenizer.json), "
                f"got {place}; {name_run_of(place)}"
            )
    return Subjects(runs, tokenizers)


def name_places(places: Sequence[Path]) -> list[str]:
    """Name places by the last part of their paths, or the last two, or all of them, so that no two are called alike.

    A tokenizer in a run's folder is called by the run too.

    >>> name_places([Path("runs/a"), Path("runs/a/tokenizer")]), name_places([Path("x/a"), Path("y/a")])
    (['a', 'a/tokenizer'], ['x/a', 'y/a'])

    Raises:
        EvaluationError: two are the same.
    """
    parts = [place.resolve().parts for place in places]
    if len(set(parts)) < len(parts):
        raise EvaluationError(f"places must be different, got {' '.join(map(str, places))}; name each once")
    least = [2 if part[-1] == "tokenizer" else 1 for part in parts]
    for more in range(max(map(len, parts))):
        names = ["/".join(part[-number - more :]) for part, number in zip(parts, least, strict=True)]
        if len(set(names)) == len(names):
            return names
    return list(map(str, places))


def _open_tokenizer(place: Path) -> OpenedTokenizer:
    """Open a tokenizer; one of ours without its merges.parquet like one from elsewhere, which this is said of."""
    if (place / "provenance.json").is_file() and not (place / "merges.parquet").is_file():
        note = "merges.parquet is missing: F, R, L of its merges are not known."
        return OpenedTokenizer(Tokenizer.from_huggingface(place), [note])
    return OpenedTokenizer(open_subject(place), [])
