"""Tables of what was measured: means, errors, chance and paired differences, against NumPy and closed forms."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import tokenizer as tokenizers
from evaluation.longcontext import LongContextConfig
from evaluation.longcontext.measuring import NO_DOCUMENT, Cell
from evaluation.longcontext.page import _over_length
from evaluation.longcontext.tables import Comparison, by_luck, cell_error, make_tables, to_json
from evaluation.subject import Subject
from model import LlamaConfig

LENGTHS, DEPTHS, SAMPLES = (64, 128), (0.0, 1.0), 10


def cells(generator) -> list[Cell]:
    return [
        Cell("needle", measure, length, depth, generator.random(SAMPLES).round(), np.arange(SAMPLES) + 100 * depth)
        for measure in ("choice", "written", "unread")
        for length in LENGTHS
        for depth in DEPTHS
    ]


@pytest.fixture
def comparison() -> Comparison:
    config = LongContextConfig(task=("needle",), lengths=LENGTHS, depths=DEPTHS, samples=SAMPLES)
    generator = np.random.default_rng(0)
    trained = tokenizers.Tokenizer(np.zeros((0, 2)), ["<eod>"])
    subject = Subject({}, LlamaConfig(rope_base=1e4), trained, 64, Path("run"), 3)
    found = {name: cells(generator) for name in ("one", "two")}
    return Comparison(config=config, source="documents", subjects=dict.fromkeys(found, subject), cells=found)


def test_cells_rows_and_marks_are_those_of_the_values(comparison):
    choice, written, _ = make_tables(comparison)
    assert choice.columns == ("model", "depth", "64", "128")
    rows = {row[:2]: row[2:] for row in choice.rows}
    values = {(cell.length, cell.depth): cell.values for cell in comparison.cells["one"] if cell.measure == "choice"}
    assert rows["one", "0"] == (f"{values[64, 0.0].mean():.3f}", f"{values[128, 0.0].mean():.3f}*")
    both = np.concatenate([values[64, 0.0], values[64, 1.0]])
    smoothed = np.concatenate([both, [0, 0, 1, 1]]).mean()
    assert rows["one", "all"][0] == f"{both.mean():.3f} ± {np.sqrt(smoothed * (1 - smoothed) / 24):.3f}"
    assert ("two", "unread") in rows and ("two", "unread") not in {row[:2] for row in written.rows}
    assert "chance is 0.250" in choice.caption and "*: longer than" in choice.caption


def test_differences_are_paired_by_sample(comparison):
    *_, differences = make_tables(comparison)
    one, two = (comparison.values(name, "needle", "choice", 128, None) for name in ("one", "two"))
    expected = f"{(two - one).mean():+.3f} ± {(two - one).std(ddof=1) / np.sqrt(20):.3f}"
    assert differences.rows[0] == ("needle, choice", "two", differences.rows[0][2], expected)
    assert len(differences.rows) == 2


def test_json_has_every_value(comparison):
    content = to_json(comparison)
    assert [model["name"] for model in content["models"]] == ["one", "two"] and content["chance"] == 0.25
    for model in content["models"]:
        given = comparison.cells[model["name"]]
        assert [cell["values"] for cell in model["cells"]] == [cell.values.tolist() for cell in given]
        assert model["trained_length"] == 64 and model["rope_base"] == 1e4


def test_errors_of_shares_are_never_zero_and_those_of_losses_are_of_the_mean():
    # (4 + 2) / 8 and (0 + 2) / 8 right.
    for measure, values in (("choice", np.ones(4)), ("written", np.zeros(4))):
        assert cell_error(measure, values, np.arange(4)) == pytest.approx(np.sqrt(0.75 * 0.25 / 8))
    losses = np.random.default_rng(1).normal(size=9)
    assert cell_error("gain", losses, np.arange(9)) == pytest.approx(losses.std(ddof=1) / 3)


def with_documents(comparison: Comparison, documents: np.ndarray) -> Comparison:
    """The same values, of other documents."""
    found = {name: [cell._replace(documents=documents) for cell in cells] for name, cells in comparison.cells.items()}
    return dataclasses.replace(comparison, cells=found)


def test_samples_of_one_document_say_nothing_of_others_and_their_number_is_told(comparison):
    two = with_documents(comparison, np.arange(SAMPLES) % 2)
    tables = make_tables(two)
    for table in tables[:2]:
        assert ("one", "documents", "2", "2") in table.rows and "over documents" in table.caption
    # Two documents: half of the difference of their means, paired.
    first, other = (two.values(name, "needle", "choice", 64, None).reshape(-1, 2) for name in ("one", "two"))
    means = (other - first).mean(axis=0)
    assert tables[2].rows[0][2] == f"{means.mean():+.3f} ± {abs(means[1] - means[0]) / 2:.3f}"
    assert all(cell["documents"] == 2 for cell in to_json(two)["models"][0]["cells"])

    single = with_documents(comparison, np.zeros(SAMPLES, int))
    choice, _, differences = make_tables(single)
    rows = {row[:2]: row[2:] for row in choice.rows}
    assert all(str(cell).rstrip("*").endswith("± -") for cell in rows["one", "all"]) and rows["one", "documents"] == (
        "1",
        "1",
    )
    assert all(str(cell).endswith("± -") for cell in differences.rows[0][2:])
    assert {cell["error"] for cell in to_json(single)["models"][0]["cells"]} == {None}
    assert "NaN" not in _over_length(single, "needle", "choice")


def test_samples_of_no_document_are_one_by_one(comparison):
    none = with_documents(comparison, np.full(SAMPLES, NO_DOCUMENT))
    assert not any("documents" in row for row in make_tables(none)[0].rows)
    one_by_one = with_documents(comparison, np.arange(SAMPLES))
    place = ("one", "needle", "written", 64, 0.0)
    assert none.error(*place) == pytest.approx(one_by_one.error(*place))
    assert len(set(none.documents("one", "needle", "written", 64, None).tolist())) == 2 * SAMPLES


@pytest.mark.parametrize(("chance", "count"), [(0.25, 20), (0.5, 7), (0.1, 100), (0.25, 3000)])
def test_luck_ends_where_guessers_rarely_go(chance, count):
    rights = np.random.default_rng(0).binomial(count, chance, 200_000) / count
    most = by_luck(chance, count)
    assert np.mean(rights > most) <= 0.026
    assert np.mean(rights > most - 1 / count) > 0.024
