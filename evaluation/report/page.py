"""The page of a run, of a tokenizer, or of several of them compared."""

import dataclasses

from evaluation.report.comparison import comparison_sections
from evaluation.report.places import Subjects
from evaluation.report.run_record import RunRecord
from evaluation.report.run_sections import (
    event_sections,
    held_out_section,
    loss_section,
    overview_section,
    sample_sections,
    settings_sections,
)
from evaluation.report.run_speed import curriculum_section, speed_section
from evaluation.report.tokenizer_sections import tokenizer_sections
from tokenizer.measures.page import Section, make_page

__all__ = ["make_report", "report_page"]

MOST_WHOLE_RUNS = 4
"""Runs that are shown with all their sections; of more, a page shows what they are, and their curricula."""


def report_page(subjects: Subjects) -> str:
    """The HTML text of a page on runs and tokenizers (`evaluation.report.places.open_places`)."""
    names = [run.name for run in subjects.runs] + list(subjects.tokenizers)
    return make_page(", ".join(names), make_report(subjects))


def make_report(subjects: Subjects) -> list[Section]:
    """Comparison first, then each run, then tokenizers."""
    runs = subjects.runs
    sections = comparison_sections(runs) if len(runs) > 1 else []
    for run in runs:
        prefix = f"{run.name}: " if len(runs) > 1 else ""
        sections += _run_sections(run, prefix, is_whole=len(runs) <= MOST_WHOLE_RUNS)
    return sections + (tokenizer_sections(subjects.tokenizers) if subjects.tokenizers else [])


def _run_sections(run: RunRecord, prefix: str, *, is_whole: bool) -> list[Section]:
    """Sections of a run; of one among several, links lead to the first."""
    first, *others = _all_sections(run, prefix) if is_whole else _brief_sections(run, prefix)
    return [first, *(dataclasses.replace(section, is_linked=not prefix) for section in others)]


def _all_sections(run: RunRecord, prefix: str) -> list[Section]:
    ahead = (overview_section, loss_section, held_out_section, curriculum_section, speed_section)
    sections = [section for make in ahead if (section := make(run, prefix))]
    rest = (event_sections, sample_sections, settings_sections)
    return sections + [section for make in rest for section in make(run, prefix)]


def _brief_sections(run: RunRecord, prefix: str) -> list[Section]:
    return [overview_section(run, prefix), *filter(None, [curriculum_section(run, prefix)])]
