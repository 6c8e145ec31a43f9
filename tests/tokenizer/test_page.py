import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from tokenizer import TokenizerError
from tokenizer.measures.page import Section, Table, Widget, make_page, write_page
from tokenizer.measures.plots import plot_bars, plot_density, plot_pruning

VOID = {"meta"}


class Reader(HTMLParser):
    """Checks that elements nest, and collects text, ids and whatever a browser would fetch or run."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.text, self.fetched = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        self.fetched += [
            (tag, value)
            for name, value in attrs
            if name in ("src", "href", "xlink:href", "data", "srcset") and not (value or "").startswith("#")
        ]
        if tag in ("script", "iframe", "link"):
            self.fetched.append((tag, None))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def sections():
    curve = {way: (np.arange(300, 400, 20), np.arange(5) + number) for number, way in enumerate(("end", "leaves"))}
    plots = [plot_pruning(curve), plot_pruning(curve), plot_density("R <&>", np.arange(1, 500), label="R")]
    rows = [["<b>&", 32768, 3.14159, "12.5%"], ["a\0\x1b", None, 0.00012, "3%"]]
    table = Table(columns=["name", "tokens", "rate", "share"], rows=rows, caption="Caption <i>")
    return [
        Section(title="Plots & <more>", notes=["a < b", "ünïcode 東京 🎉 \ud800"], plots=plots),
        Section(title="Tables", tables=[table], plots=[plot_bars("Bars", ["x", "y"], {"one": [1.0, 2.0]})]),
    ]


@pytest.fixture(scope="module")
def page(sections):
    return make_page("Title </title><script>", sections)


def test_a_page_is_xml_and_html_that_nests_with_every_title_in_it(page):
    ElementTree.fromstring(page.partition("\n")[2])
    reader = Reader()
    reader.feed(page)
    reader.close()
    text = "".join(reader.text)
    assert reader.open == []
    for title in (
        "Title </title><script>",
        "Plots & <more>",
        "Tables",
        "Caption <i>",
        "a < b",
        "ünïcode 東京 🎉 \\ud800",
    ):
        assert title in text
    assert "R <&>" in text and "Bars" in text and "a\\x00\\x1b" in text


def test_a_page_fetches_nothing_and_runs_nothing(page):
    reader = Reader()
    reader.feed(page)
    assert reader.fetched == []
    assert not re.search(r"@import|url\((?!#)|javascript:|\son\w+=", page)
    # names of XML vocabularies are not addresses to fetch
    assert set(re.findall(r'(\S+)="https?://', page)) <= {"xmlns", "xmlns:xlink"}


def test_ids_are_unique_and_every_reference_finds_its_own(page):
    reader = Reader()
    reader.feed(page)
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', page))
    assert len(reader.ids) == len(set(reader.ids)) and used == set(reader.ids) != set()


def test_numbers_are_aligned_to_the_right_and_words_are_not(page):
    heads = re.findall(r"<th( class=\"number\")?>(\w+)</th>", page)
    assert [(bool(kind), name) for kind, name in heads] == [
        (False, "name"),
        (True, "tokens"),
        (True, "rate"),
        (True, "share"),
    ]
    cells = [">32,768</td>", ">3.142</td>", ">12.5%</td>", ">0.00012</td>", '<td class="number"></td>']
    assert all(cell in page for cell in cells)


def test_both_colour_schemes_are_there_and_plots_take_the_colour_of_text(page):
    assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page
    assert page.count("currentColor") > 20
    assert not re.search(r"fill: ?(#000|black)|stroke: ?(#000|black)|#010203", page)


def test_the_same_content_gives_the_same_bytes_and_replaces_the_file_whole(sections, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    write_page(path, "Title", sections)
    first = path.read_bytes()
    write_page(path, "Title", sections)
    assert path.read_bytes() == first == make_page("Title", sections).encode()
    assert [child.name for child in tmp_path.iterdir()] == ["page.html"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(TokenizerError, match="output must be writable, got No such file") as caught:
        write_page(tmp_path / "nowhere" / "page.html", "Title", [])
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def live():
    """A page of many sections, one with a widget, and the widget."""
    data = {"data": json.dumps(["</script><!--", "&amp;", "é"])}
    widget = Widget(markup='<p id="out"></p>', style="#out { color: red; }", script="if (1 < 2 && true) {}", data=data)
    sections = [
        Section(title=f"<{number}>", texts=["a < b\n\tc\x1b</pre>"], is_linked=number != 3) for number in range(6)
    ]
    return make_page("Live", [*sections, Section(title="Widget", widget=widget)]), widget


def test_a_page_with_a_script_is_xml_and_html_and_allows_no_other_script(live):
    page, widget = live
    ElementTree.fromstring(page.partition("\n")[2])
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert widget.script in script
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page
    assert "script-src 'none'" in make_page("Still", [])


def test_data_of_a_script_arrives_whole_and_ends_no_element(live):
    page, widget = live
    (content,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert json.loads(content) == json.loads(widget.data["data"]) and not set("<>&") & set(content)


def test_a_script_that_would_end_its_element_is_refused():
    for script in ("x = '</script>'", "<!--", "]]>"):
        with pytest.raises(ValueError, match="a script must not hold"):
            make_page("x", [Section(title="y", widget=Widget(markup="", style="", script=script))])


def test_texts_keep_their_lines_and_nothing_else_of_them_acts(live):
    page, _ = live
    assert page.count("<pre>\na &lt; b\n\tc\\x1b&lt;/pre&gt;</pre>") == 6


def test_a_page_of_many_sections_begins_with_links_that_find_them(live, page):
    reader = Reader()
    reader.feed(live[0])
    links = re.findall(r'<a href="#([^"]+)">([^<]*)</a>', live[0])
    assert [name for name, _ in links] == [name for name in reader.ids if name.startswith("section")]
    assert [title for _, title in links] == [f"&lt;{number}&gt;" for number in (0, 1, 2, 4, 5)] + ["Widget"]
    assert "<nav>" not in page


def test_rows_that_do_not_fit_the_columns_are_refused():
    with pytest.raises(ValueError):
        make_page("Title", [Section(title="x", tables=[Table(columns=["a", "b"], rows=[[1]])])])
