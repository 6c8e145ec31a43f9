"""Everything that the folder of results holds, put together."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.machine import machine
from benchmarks.sabpe.findings import language_findings, model_findings, tokenizer_findings
from benchmarks.sabpe.judging import Found
from benchmarks.sabpe.languages import Language
from benchmarks.sabpe.model_outcomes import ModelOutcome
from benchmarks.sabpe.models import is_done, model_jobs, outcomes_of
from benchmarks.sabpe.scales import Scale
from benchmarks.sabpe.usage import Usage, compression, coverage, gini_index
from benchmarks.sabpe.vocabularies import Vocabulary, read_vocabularies, vocabularies_of
from tokenizer.output import write_file

__all__ = ["Results", "as_json", "gather", "measures_of", "note_languages", "read_languages"]

LANGUAGES = "languages.json"


class Results(NamedTuple):
    """What is done so far."""

    usages: dict[Vocabulary, Usage]
    languages: list[Language]
    models: list[dict[str, ModelOutcome]]
    """Of every seed, by arm."""
    findings: list[Found]
    missing: int
    """Vocabularies and models that are not done."""


def gather(scale: Scale, output: Path) -> Results:
    """Read what is there, and judge it."""
    languages = read_languages(output)
    wanted, jobs = vocabularies_of(scale, languages), model_jobs(scale)
    usages, models = read_vocabularies(wanted, output), outcomes_of(jobs, output)
    findings = [
        *tokenizer_findings(scale, usages),
        *language_findings(scale, usages),
        *model_findings(scale, models),
    ]
    missing = len(wanted) - len(usages) + sum(not is_done(job, output) for job in jobs)
    return Results(usages, languages, models, findings, missing)


def note_languages(output: Path, languages: Sequence[Language]) -> None:
    """Keep what was chosen."""
    rows = [each._asdict() for each in languages]
    write_file(output / LANGUAGES, (json.dumps(rows, indent=1) + "\n").encode())


def read_languages(output: Path) -> list[Language]:
    """What was chosen; nothing where nothing was yet."""
    path = output / LANGUAGES
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return [Language(**row | {"thresholds": tuple(row["thresholds"])}) for row in rows]


def measures_of(usage: Usage, plain: Usage | None) -> dict[str, Any]:
    """The columns of the paper's Tables 2 and 3; `plain` is F on the same documents."""
    once_1R = np.ones((1, len(usage.names)), np.int64)
    return {
        "tokens": usage.vocab_size,
        "compression": float(compression(usage, once_1R)[0]),
        "coverage": int(coverage(usage, once_1R)[0]),
        "token_length": usage.mean_length,
        "three_digit_numbers": usage.three_digit_numbers,
        "longest_name": usage.longest_name,
        "steps": usage.steps,
        "gini": float(gini_index(usage, once_1R)[0]),
        "not_in_f": None if plain is None else len(set(usage.tokens) - set(plain.tokens)),
    }


def as_json(scale: Scale, results: Results) -> dict[str, Any]:
    """results.json: all numbers, infinite and unknown ones as null."""
    plain = {(each.kind, each.of): usage for each, usage in results.usages.items() if each.setting == ("F", 1, 1)}
    vocabularies = [
        {"kind": each.kind, "of": each.of, **each.setting._asdict(), "vocab_size": each.vocab_size}
        | measures_of(usage, plain.get((each.kind, each.of)))
        for each, usage in results.usages.items()
    ]
    return _plain(
        {
            "scale": scale.identity() | {"seeds": scale.seeds},
            "machine": machine(),
            "missing": results.missing,
            "findings": [each._asdict() | {"interval": each.interval._asdict()} for each in results.findings],
            "vocabularies": vocabularies,
            "languages": [each._asdict() for each in results.languages],
            "models": [{arm: outcome._asdict() for arm, outcome in arms.items()} for arms in results.models],
        }
    )


def _plain(value: Any) -> Any:
    """JSON has no infinities."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
