"""Numbers behind the plots of runs, against plain loops."""

import jax
import numpy as np
import pytest

import model
import tokenizer as tokenizers
from evaluation.report.comparison import comparison_sections, first_reach, reach_of
from evaluation.report.curriculum_plot import MOST_COLUMNS, shares_over_steps
from evaluation.report.curves import choose_clock, plot_curves, thin
from evaluation.report.run_record import read_run
from evaluation.report.run_speed import typical_speeds
from evaluation.report.settings_table import count_parameters, differing_settings
from model import LlamaConfig

pytestmark = pytest.mark.usefixtures("quick_plots")


def test_thinned_curves_are_means_over_equal_stretches():
    rng = np.random.default_rng(0)
    x, y = np.sort(rng.random(5000)) * 70, rng.normal(size=5000)
    found_x, found_y = thin(x, y, most=40)
    width = (x[-1] - x[0]) / 40
    expected: dict[int, list[tuple[float, float]]] = {}
    for point in zip(x, y, strict=True):
        expected.setdefault(min(39, int((point[0] - x[0]) / width)), []).append(point)
    means = np.array([np.mean(expected[stretch], axis=0) for stretch in sorted(expected)])
    np.testing.assert_allclose(np.stack((found_x, found_y), 1), means)


def test_short_curves_stay_as_they_are():
    x, y = np.arange(40.0), np.arange(40.0)[::-1]
    assert thin(x, y, most=40)[1] is y
    assert len(thin(x[:0], y[:0])[0]) == 0


def test_a_curve_without_points_keeps_its_place_and_none_at_all_is_no_plot():
    empty = np.zeros(0), np.zeros(0)
    assert plot_curves("Title", {"a": empty}, "x", "y") == ""
    assert "b name" in plot_curves("Title", {"a": empty, "b name": (np.arange(3.0), np.arange(3.0))}, "x", "y")


def test_shares_of_lengths_count_every_step_once():
    rng = np.random.default_rng(1)
    steps = np.arange(1, 5001)
    rows = rng.integers(0, 4, 5000)
    edges, shares = shares_over_steps(steps, rows, 4)
    assert shares.shape == (MOST_COLUMNS, 4)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    for column in (0, 17, MOST_COLUMNS - 1):
        inside = rows[(steps > edges[column]) & (steps <= edges[column + 1])]
        np.testing.assert_allclose(shares[column], [np.mean(inside == row) for row in range(4)])


def test_few_steps_have_a_column_each():
    edges, shares = shares_over_steps(np.array([10, 20, 30]), np.array([2, 0, 1]), 3)
    assert shares.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]] and len(edges) == 4


@pytest.mark.parametrize("target", [5.0, 3.2, 2.0, 1.0])
def test_a_target_is_reached_where_the_line_between_evaluations_first_comes_down_to_it(target):
    x, y = np.array([0.0, 10.0, 20.0, 30.0]), np.array([4.0, 3.0, 3.5, 2.0])
    finely = np.linspace(0, 30, 300_001)
    below = finely[np.interp(finely, x, y) <= target + 1e-12]
    expected = below[0] if len(below) else None
    assert first_reach(x, y, target) == pytest.approx(expected, abs=1e-3)


def test_a_run_that_falls_twice_as_fast_takes_half_of_what_the_first_one_took(tmp_path, make_run):
    first, fast = (
        read_run(make_run(tmp_path / name, 80, rate=rate, evaluate_every=1), name)
        for name, rate in (("first", 1.0), ("fast", 2.0))
    )
    target = first.evaluations[-1]["held_out_loss"]
    reach = reach_of(fast, "held_out_loss", target)
    assert reach.tokens == pytest.approx(40_000) and reach.seconds == pytest.approx(10.0)
    table = comparison_sections([first, fast])[0].tables[0]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["tokens to the first's end"] for row in rows] == ["80,000 (1.00x)", "40,000 (0.50x)"]
    assert [row["time to the first's end"] for row in rows] == ["20.0 s (1.00x)", "10.0 s (0.50x)"]
    gain = target - fast.evaluations[-1]["held_out_loss"]
    assert [row["less than the first"] for row in rows] == [None, f"+{gain:.4f}"]


def test_runs_of_different_tokenizers_are_compared_by_bits_per_byte(tmp_path, make_run, tokenizer):
    other = tokenizers.train([("def other(): pass\n" * 4, "a", "b")], vocab_size=280)
    records = [
        read_run(make_run(tmp_path / name, 20, vocabulary=vocabulary), name)
        for name, vocabulary in (("a", tokenizer), ("b", other))
    ]
    section = comparison_sections(records)[0]
    assert (
        section.notes[0] == "The tokenizers differ, or are not known: losses a token do not compare, bits per byte do."
    )
    assert "held-out bits per byte" in section.plots[0] and "held-out bits per byte" in section.tables[0].columns
    assert "held-out loss, nats a token" in comparison_sections([records[0], records[0]])[0].tables[0].columns
    unknown = [record._replace(fingerprint=None) for record in records]
    for pair in (unknown, [records[0], unknown[0]]):
        assert "held-out bits per byte" in comparison_sections(pair)[0].tables[0].columns


def test_settings_that_differ_are_those_that_are_not_alike_defaults_taken_for_what_is_not_named():
    runs = [{"data.seed": 1, "model.dim": 8, "train.run": "a"}, {"model.dim": 8, "train.run": "b"}]
    assert differing_settings(runs) == [("data.seed", "1", "0")]


def test_settings_that_change_what_is_held_out_are_named_unless_one_kind_of_sequences_was_asked_for(tmp_path, make_run):
    record = read_run(make_run(tmp_path / "run", 4, evaluate_every=2), "run")

    def note(**changed: str) -> str:
        other = record._replace(settings=record.settings | changed)
        return comparison_sections([record._replace(settings=record.settings | common), other])[0].notes[-1]

    common = {}
    assert note(**{"data.sequences": "packed"}).endswith("as these settings do: data.sequences.")
    assert "may differ" not in note(**{"optimizer.learning_rate": "1"})
    common = {"train.evaluate_sequences": "decomposed"}
    assert "may differ" not in note(**common, **{"data.sequences": "packed"})


def test_parameters_are_counted_of_what_the_settings_describe():
    config = LlamaConfig(num_layers=2, dim=32, num_heads=4, num_kv_heads=2, hidden_dim=64)
    settings = {f"model.{name}": value for name, value in vars(config).items()}
    shapes = jax.tree.leaves(model.abstract_params(config, 300))
    assert count_parameters(settings, 300) == sum(leaf.size for leaf in shapes)
    assert count_parameters(settings, None) is None and count_parameters({}, 300) is None
    assert count_parameters({"model.no_such": 1}, 300) is None and count_parameters({"model.dim": -1}, 300) is None


def test_typical_speeds_are_medians_by_length(tmp_path, make_run):
    record = read_run(make_run(tmp_path / "run", 40), "run")
    for row, factor in zip(record.steps, np.random.default_rng(0).permutation(40), strict=True):
        row["tokens_per_second"] = 1000.0 + float(factor)
    for name, figures in typical_speeds(record).items():
        speeds = [row["tokens_per_second"] for row in record.steps if f"{row['length']}{'p' * row['packed']}" == name]
        assert figures["tokens_per_second"] == np.median(speeds) and figures["steps"] == len(speeds)


def test_time_is_counted_in_units_that_people_read():
    assert [choose_clock(seconds).label.split()[0] for seconds in (1, 119, 120, 7199, 7200)] == [
        "seconds", "seconds", "minutes", "minutes", "hours"
    ]  # fmt: skip
