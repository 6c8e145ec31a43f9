"""The report in Markdown: findings first, then priorities and thresholds, single languages, models."""

import math
from collections.abc import Sequence

from benchmarks.machine import machine
from benchmarks.sabpe.findings import single_gains
from benchmarks.sabpe.judging import Found, judge_draws
from benchmarks.sabpe.model_outcomes import ModelOutcome
from benchmarks.sabpe.results import Results, measures_of
from benchmarks.sabpe.scales import PLAIN, Scale
from benchmarks.sabpe.usage import Usage, compression, coverage
from benchmarks.tokenizer_priorities import Setting
from tokenizer.measures.page import Table
from tokenizer.measures.table import to_markdown

__all__ = ["report", "show_effect"]

TOO_SMALL = "**Too small to tell anything: these sizes only show that everything works.**"
TITLES = {"plain": "`F`", "sabpe": "`F*logR*L`"}
COLUMNS = ("tokens", "compression", "coverage", "token length", "3-digit numbers", "longest name", "steps", "Gini")


def report(scale: Scale, results: Results, command: str) -> str:
    """The whole report."""
    state = f"**Partial: {results.missing} vocabularies and models are not done.** " if results.missing else ""
    lines = ["# SA-BPE against plain BPE", ""]
    if not scale.can_tell:
        lines += [TOO_SMALL, ""]
    lines += [f"{state}`{command}` on {machine()}.", "", _describe(scale), ""]
    for title, tables in (
        ("Findings", [_findings(results.findings)]),
        ("Priorities and thresholds", _settings(scale, results)),
        ("Single languages", _languages(scale, results)),
        ("Models", _models(results)),
    ):
        kept = [table for table in tables if table.rows]
        if kept:
            lines += [f"## {title}", "", *map(to_markdown, kept)]
    return "\n".join(lines).rstrip() + "\n"


def show_effect(value: float, unit: str) -> str:
    """An effect as it is read.

    >>> show_effect(0.0123, "ratio"), show_effect(-3.0, "tokens"), show_effect(0.0401, "area")
    ('+1.23%', '-3.0', '+0.0401')
    """
    if not math.isfinite(value):
        return "-"
    return {"ratio": f"{value:+.2%}", "tokens": f"{value:+,.1f}", "parts": f"{value:+.1f}"}.get(unit, f"{value:+.4f}")


def _describe(scale: Scale) -> str:
    model = ", ".join(f"{name} {value}" for name, value in scale.model.items())
    more = f" Further settings: {' '.join(scale.overrides)}." if scale.overrides else ""
    return (
        f"Tokenizers: {scale.vocab_size:,} tokens, pattern gpt4. Models: {model}; vocabulary "
        f"{scale.model_vocab_size:,}, {scale.model_bytes / 1e6:g} MB of text once and 1% of prompts for repetition, "
        f"rows of at most {scale.max_length:,} tokens, {scale.tokens_per_step:,} a step, peak learning rate "
        f"{scale.learning_rate:g}.{more} Seeds {', '.join(map(str, range(scale.seeds)))}; {scale.draws:,} draws of "
        "evaluation repositories. Intervals are from 10% to 90%; in every effect more is what the claim says."
    )


def _findings(findings: Sequence[Found]) -> Table:
    rows = [
        (
            found.claim,
            show_effect(found.effect, found.unit),
            _show_interval(found),
            show_effect(found.interval.deviation, found.unit).lstrip("+"),
            found.spread,
            f"**{found.verdict}**",
        )
        for found in findings
    ]
    return Table(columns=("finding", "effect", "interval", "deviation", "over", "verdict"), rows=rows)


def _show_interval(found: Found) -> str:
    low, high = found.interval.low, found.interval.high
    return f"{show_effect(low, found.unit)} to {show_effect(high, found.unit)}" if math.isfinite(low) else "-"


def _settings(scale: Scale, results: Results) -> list[Table]:
    by_setting = {each.setting: usage for each, usage in results.usages.items() if each.kind == "all"}
    plain = by_setting.get(PLAIN)
    tables = []
    for letter, settings, column in (
        ("R", scale.settings_of_repositories, "min_repositories"),
        ("L", scale.settings_of_languages, "min_languages"),
    ):
        rows = [
            (f"`{setting.priority}`", str(getattr(setting, column)), *_cells(by_setting[setting], plain))
            for setting in settings
            if setting in by_setting
        ]
        what = "repositories" if letter == "R" else "languages"
        caption = f"Priorities and thresholds of {letter}, the {what} that hold a pair:"
        tables.append(
            Table(columns=("priority", f"{letter} at least", *COLUMNS, "not in F"), rows=rows, caption=caption)
        )
    return tables


def _cells(usage: Usage, plain: Usage | None) -> list[str]:
    found = measures_of(usage, plain)
    return [
        f"{found['tokens']:,}",
        f"{found['compression']:.4f}",
        f"{found['coverage']:,}",
        f"{found['token_length']:.3f}",
        str(found["three_digit_numbers"]),
        str(found["longest_name"]),
        f"{found['steps']:,}",
        f"{found['gini']:.4f}" if math.isfinite(found["gini"]) else "-",
        "-" if found["not_in_f"] is None else f"{found['not_in_f']:,}",
    ]


def _languages(scale: Scale, results: Results) -> list[Table]:
    sizes = {each.name: each for each in results.languages}
    gains = [single_gains(results.usages, measure, scale.draws) for measure in (compression, coverage)]
    rows = []
    for name, gain in gains[0].items():
        found, used = (
            judge_draws("", "", "ratio", one.effect, one.draws, one.num_repositories, can_tell=scale.can_tell)
            for one in (gain, gains[1][name])
        )
        effects = (
            show_effect(found.effect, "ratio"),
            _show_interval(found),
            f"**{found.verdict}**",
            show_effect(used.effect, "ratio"),
        )
        size = sizes[name]
        about = (f"{size.num_bytes / 1e6:.2f}", f"{size.num_repositories}", f"{size.vocab_size:,}")
        rows.append((name, *about, *effects, f"**{used.verdict}**", str(gain.num_repositories)))
    columns = ("language", "MB", "repositories", "tokens", "compression", "interval", "verdict")
    columns += ("coverage", "verdict", "measured on")
    caption = "`F*logR` over `F` in single languages, repositories that are measured on drawn:"
    return [Table(columns=columns, rows=rows, caption=caption), _single_settings(results)]


def _single_settings(results: Results) -> Table:
    by_key = {(each.of, each.setting): usage for each, usage in results.usages.items() if each.kind == "language"}
    rows = []
    for (name, setting), usage in by_key.items():
        cells = _cells(usage, by_key.get((name, Setting("F", 1, 1))))
        rows.append((name, f"`{setting.priority}`", str(setting.min_repositories), *cells[:7], cells[8]))
    columns = ("language", "priority", "R at least", *COLUMNS[:7], "not in F")
    return Table(columns=columns, rows=rows, caption="Priorities and thresholds in single languages:")


def _models(results: Results) -> list[Table]:
    rows, predictions = [], []
    for seed, arms in enumerate(results.models):
        for arm, outcome in arms.items():
            verified = "no verdict" if math.isnan(outcome.verified) else f"{outcome.verified:,.0f}"
            counts = (f"{len(outcome.candidates):,}", f"{outcome.passing:.0%}", verified, f"{outcome.rarely_seen:,.0f}")
            rows.append((TITLES[arm], str(seed), f"{outcome.num_tokens:,}", *counts))
            predictions += [(TITLES[arm], str(seed), *cells) for cells in _predictors(outcome)]
    columns = ("model", "seed", "tokens", "candidates", "controls pass", "verified", "seen < 10")
    known = ("model", "seed", "known before", "rank correlation", "AUC, candidates", "AUC, verified")
    return [
        Table(columns=columns, rows=rows, caption="Under-trained tokens:"),
        Table(columns=known, rows=predictions, caption="How small F, R, L of a merge foretell a low cosine distance:"),
    ]


def _predictors(outcome: ModelOutcome) -> list[tuple[str, ...]]:
    return [
        (name, *("-" if math.isnan(value) else f"{value:.3f}" for value in columns.values()))
        for name, columns in outcome.predictors.items()
    ]
