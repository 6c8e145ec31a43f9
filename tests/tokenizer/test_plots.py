import re
from xml.etree import ElementTree

import numpy as np
import pytest

from tokenizer.measures import plots
from tokenizer.measures.drawing import COLOURS, label_number

RANDOM = np.random.default_rng(0)
SERIES = {"BPE": np.arange(1, 9), "SA-BPE <F*logR>": np.arange(8, 0, -1)}
LINES = {name: (np.arange(8), values) for name, values in SERIES.items()}

PLOTS = {
    "bars": lambda: plots.plot_bars("Title", list("abcdefgh"), SERIES, label="bytes"),
    "histogram": lambda: plots.plot_histogram("Title", SERIES, label="bytes"),
    "long histogram": lambda: plots.plot_histogram("Title", {"a": np.arange(90) % 3, "b": np.arange(40) % 2}, first=1),
    "name parts": lambda: plots.plot_name_parts(SERIES),
    "lines": lambda: plots.plot_lines("Title", LINES),
    "log lines": lambda: plots.plot_lines("Title", {"a": (np.arange(1, 9), np.arange(1, 9))}, log="xy", marks=True),
    "pruning": lambda: plots.plot_pruning(LINES),
    "probabilities": lambda: plots.plot_probabilities({name: np.sort(v)[::-1] / 36 for name, v in SERIES.items()}),
    "density": lambda: plots.plot_density("Title", np.array([5, 1, 1, 300]), label="R"),
    "bars of nothing": lambda: plots.plot_bars("Title", [], {}),
    "histogram of nothing": lambda: plots.plot_histogram("Title", {"a": np.zeros(0, np.int64)}),
    "lines of nothing": lambda: plots.plot_lines("Title", {}),
    "probabilities of nothing": lambda: plots.plot_probabilities({"a": np.zeros(3)}),
    "density of nothing": lambda: plots.plot_density("Title", np.zeros(0, np.int64), label="R"),
    "density of one merge": lambda: plots.plot_density("Title", np.array([7]), label="R"),
    "bars with gaps": lambda: plots.plot_bars("Title", ["a", ""], {"x": [float("nan"), 1]}),
}


def texts(svg):
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")
    ]


@pytest.mark.parametrize("make", PLOTS.values(), ids=PLOTS)
def test_every_plot_is_xml_that_is_always_the_same_and_names_itself(make):
    svg = make()
    root = ElementTree.fromstring(svg)
    assert svg == make()
    assert root.attrib["role"] == "img" and root.attrib["aria-label"] in texts(svg)
    assert "viewBox" in root.attrib and not {"width", "height"} & set(root.attrib)
    assert "nan" not in svg.lower().replace("dominant", "")


def corners_of_bars(svg, colour):
    """Three corners (x, y) of each bar of a colour; the legend's comes last."""
    number = r"([-\d.]+)"
    corners = rf'd="M {number} {number} \nL {number} {number} \nL {number} {number}[^"]*"[^>]*fill: {colour}'
    return np.array(re.findall(corners, svg), float).reshape(-1, 3, 2)


def test_bars_are_as_long_as_their_values_beside_the_names_of_their_groups():
    values = {"one": [1.0, 2.0, 4.0], "two": [3.0, 0.5, 1.5]}
    svg = plots.plot_bars("Title", ["aa", "bb", "cc"], values)
    labels = [float(re.search(rf' y="([-\d.]+)"[^>]*>{name}</text>', svg)[1]) for name in ("aa", "bb", "cc")]  # pyright: ignore
    for number, name in enumerate(values):
        bars = corners_of_bars(svg, COLOURS[number])[:3]
        lengths = np.ptp(bars[:, :, 0], axis=1)
        np.testing.assert_allclose(lengths / lengths[0], np.array(values[name]) / values[name][0], rtol=1e-4)
        # the first series lies half a bar above the middle of its group, the second half a bar below
        thickness = np.ptp(bars[0, :, 1]) / 0.9
        middles = bars[:, :, 1].min(axis=1) + np.ptp(bars[:, :, 1], axis=1) / 2 + (0.5 - number) * thickness
        np.testing.assert_allclose(middles, labels, atol=4)


def test_names_are_shown_as_they_are_not_as_markup_or_mathematics():
    svg = plots.plot_bars("Cost $x^2$ <b>", ["$a$", "東京", "a\0b"], {"one": [1, 2, 3], "_two": [1, 2, 3]})
    assert {"Cost $x^2$ <b>", "$a$", "東京", "a\\x00b", "one", "_two"} <= set(texts(svg))


def test_every_series_of_several_is_in_the_legend_and_one_alone_is_not():
    many = {f"tokenizer number {number}": (np.arange(3), np.arange(3)) for number in range(9)}
    assert set(many) <= set(texts(plots.plot_lines("Title", many)))
    assert "alone" not in texts(plots.plot_lines("Title", {"alone": (np.arange(3), np.arange(3))}))


def drawn_points(svg, colour):
    found = re.search(rf'd="(M[^"]*)"[^>]*stroke: {colour}', svg)
    assert found is not None
    return np.array([float(number) for number in re.findall(r"[-\d.]+", found[1])]).reshape(-1, 2)


def test_a_line_goes_through_its_points():
    x, y = np.array([0, 1, 5, 7]), np.array([2, 9, 4, 4])
    points = drawn_points(plots.plot_lines("Title", {"a": (x, y)}), COLOURS[0])
    for drawn, values, sign in ((points[:, 0], x, 1), (points[:, 1], y, -1)):
        scaled = (drawn - drawn[0]) / (drawn[1] - drawn[0])
        np.testing.assert_allclose(scaled, (values - values[0]) / (values[1] - values[0]), atol=1e-3)
        assert (drawn[1] - drawn[0]) * sign > 0


def test_long_lines_keep_their_ends_and_few_points():
    values = np.sort(RANDOM.random(40_000))[::-1]
    whole = drawn_points(plots.plot_probabilities({"a": values}), COLOURS[0])
    ends = drawn_points(plots.plot_lines("T", {"a": (np.array([1, 40_000]), values[[0, -1]])}, log="xy"), COLOURS[0])
    assert len(whole) <= plots.MOST_POINTS
    np.testing.assert_allclose((whole[-1] - whole[0])[0], (ends[-1] - ends[0])[0], atol=15)  # other room for labels


def test_cells_of_the_density_are_where_the_merges_are():
    svg = plots.plot_density("Title", np.array([1] * 64 + [1000] * 64), label="R")
    cells = re.findall(rf'd="(M [^"]*z)[^"]*"[^>]*fill: {COLOURS[0]}', svg, flags=re.DOTALL)
    corners = np.concatenate([np.array(re.findall(r"[-\d.]+", cell), float).reshape(-1, 2) for cell in cells])
    middle = (corners[:, 0].min() + corners[:, 0].max()) / 2
    early, late = corners[corners[:, 0] < middle - 1], corners[corners[:, 0] > middle + 1]
    # the first half lies low (large y in SVG), the second high, and the halves are equally wide
    assert early[:, 1].min() > late[:, 1].max()
    assert len(early) == pytest.approx(len(late), rel=0.1)


def test_long_histograms_are_drawn_where_there_is_something():
    histogram = np.zeros(400, np.int64)
    histogram[[1, 2, 20, 399]] = [10, 1000, 100, 1]
    points = drawn_points(plots.plot_histogram("Title", {"a": histogram}), COLOURS[0])
    decades = (points - points[0])[:, 1] / (points - points[0])[1, 1] * 2
    np.testing.assert_allclose(decades, [0, 2, 1, -1], atol=1e-3)
    steps = np.log([1, 2, 20, 399]) / np.log(399)
    np.testing.assert_allclose((points - points[0])[:, 0] / (points[-1] - points[0])[0], steps, atol=1e-3)


def test_a_plot_of_a_whole_vocabulary_is_small():
    values = RANDOM.pareto(1, 250_000).astype(np.int64) + 1
    assert len(plots.plot_density("Title", values, label="R")) < 400_000


def test_numbers_of_ticks_are_short():
    assert [label_number(value) for value in (0, 0.25, 999, 1000, 32_768, 1e6, 3e9, 1e-5)] == [
        "0",
        "0.25",
        "999",
        "1k",
        "32.8k",
        "1M",
        "3G",
        "1e-05",
    ]


def test_drawing_leaves_the_settings_of_matplotlib_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.plot_lines("Title", LINES)
    assert dict(matplotlib.rcParams) == before
