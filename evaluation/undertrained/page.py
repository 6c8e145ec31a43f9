"""What was found, as sections of a page: tables, the plane of distances, and what was known before."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evaluation.undertrained.finding import Undertrained
from evaluation.undertrained.plots import plot_distribution, plot_history, plot_plane
from evaluation.undertrained.tables import make_tables
from tokenizer.measures.page import Section, Table
from tokenizer.measures.spelling import show_token

__all__ = ["make_sections"]

NUM_ROWS = 200

_METHOD = (
    "Tokens that training never had end up beside each other in the output embedding. The indicator is the distance "
    "of a token's row to the mean row of tokens known to be unused; candidates are the lowest of the tokens that their "
    "own text becomes (Land and Bartolo, arXiv 2405.05417).",
    "Each is asked for by three prompts in which lines are repeated, with 20 examples, with none and with 50, or as "
    "many as there is room for; the model goes on greedily for three tokens. Verified: at none of these places does "
    "the token have a probability of 1%. Tokens of median frequency are asked for too: where they fail, the model "
    "cannot copy, and nothing is said of its tokens.",
)
_RULES = (
    "Categories: intermediate: made to be merged on, it stays in fewer than 1% of cases; non-Latin: a letter of "
    "another script; punctuation; upper-case Latin: capitals alone; names: Latin letters, digits and underscores; "
    "other: the rest."
)


def make_sections(models: Sequence[Undertrained]) -> list[Section]:
    """What a page shows of one model, or of several beside each other (`tokenizer.measures.page`)."""
    counts, categories, *others = map(_blank, make_tables(models, NUM_ROWS))
    predictors, candidates = others[: -len(models)], others[-len(models) :]
    planes = [plot for found in models for plot in (plot_plane(found), plot_distribution(found))]
    sections = [
        Section(title="Under-trained tokens", notes=_METHOD, plots=planes, tables=[counts]),
        Section(title="Kinds of candidates", notes=[_RULES], tables=[categories]),
    ]
    if predictors:
        notes = ["F, R, L: how often, in how many repositories and languages a pair was there when it was merged."]
        plots = [plot for found in models for plot in _history(found)]
        sections.append(Section(title="What was known before", notes=notes, plots=plots, tables=predictors))
    tables = [table for found, own in zip(models, candidates, strict=True) for table in (own, _prompts(found))]
    return [*sections, Section(title="Candidates and prompts", tables=tables)]


def _blank(table: Table) -> Table:
    """Cells that say nothing left empty, so that columns of numbers are seen to be that."""
    return replace(table, rows=[[None if cell == "-" else cell for cell in row] for row in table.rows])


def _history(found: Undertrained) -> list[str]:
    evidence = found.evidence
    columns = {"F": evidence.frequency, "R": evidence.repositories, "L": evidence.languages}
    if evidence.occurrences is not None:
        columns["occurrences"] = evidence.occurrences
    is_shown = {name: bool(np.any(column[found.is_eligible] > 0)) for name, column in columns.items()}
    return [plot_history(found, name, column) for name, column in columns.items() if is_shown[name]]


def _prompts(found: Undertrained) -> Table:
    rows = []
    for prompt in found.prompts:
        shared = b"".join(found.tokens[number] for number in prompt.shared if number < len(found.tokens))
        ending = "".join("TOKEN" if number is None else show_token(found.tokens[number]) for number in prompt.ending)
        rows.append((f"{prompt.num_examples} examples", show_token(shared).replace("\\n", "\n") + ending))
    return Table(columns=("prompt", "text"), rows=rows, caption=f"{found.name}: prompts")
