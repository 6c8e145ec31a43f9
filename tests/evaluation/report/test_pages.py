"""Report pages in a real browser: whole, legible at any width and in any light, silent, and alone with themselves."""

import html
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import tokenizer as tokenizers
from evaluation.report.page import report_page
from evaluation.report.places import open_places
from tokenizer import Tokenizer
from tokenizer.measures.page import Section, make_page

LIGHT, DARK = ([f"--blink-settings=preferredColorScheme={kind}"] for kind in (1, 0))
EVIL = "</script><img src=x onerror=window.pwned=1>"
INSPECT = (
    f"const EVIL = {json.dumps(EVIL)};".replace("</", "<\\/")
    + """
    const sizeOf = (text) => {
      const { a, b } = text.getScreenCTM();
      return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
    };
    return Array.from(document.querySelectorAll("iframe"), (frame) => {
      const page = frame.contentDocument;
      const area = page.getElementById("splitter-text");
      if (area) {
        area.value = EVIL;
        page.querySelector("#splitter select").dispatchEvent(new Event("change"));
      }
      const colours = getComputedStyle(page.body);
      const texts = Array.from(page.querySelectorAll("svg text"));
      return {
        title: page.title,
        sections: Array.from(page.querySelectorAll("h2"), (head) => head.textContent),
        text: page.body.innerText,
        tooWide: page.documentElement.scrollWidth - frame.clientWidth,
        images: page.images.length,
        fetched: frame.contentWindow.performance.getEntriesByType("resource").length,
        ran: Boolean(frame.contentWindow.pwned),
        back: colours.backgroundColor,
        ink: colours.color,
        plotted: [...new Set(texts.map((one) => getComputedStyle(one).fill))],
        plots: page.querySelectorAll("svg").length,
        tokens: Array.from(page.querySelectorAll("#splitter [data-at]"), (one) => one.title),
        smallest: Math.min(...texts.map(sizeOf)),
      };
    });"""
)


def page_of(*places: Path) -> str:
    return report_page(open_places(places))


@pytest.fixture
def inspect(browse):
    """inspect(pages, width, *options) -> what the browser made of each page in a window of that width."""

    def look(pages: list[str], width: int, *options: str) -> list[dict]:
        frames = "".join(
            f'<iframe srcdoc="{html.escape(page)}" style="width: {width}px; height: 844px"></iframe>' for page in pages
        )
        head = '<head><meta charset="utf-8"/><title></title></head>'
        opened = browse(f"<!DOCTYPE html><html>{head}<body>{frames}</body></html>", INSPECT, *options)
        assert opened.console == []
        return opened.value

    return look


EVIL_NAME = EVIL.replace("</script>", "")


@pytest.fixture(scope="module")
def places(tmp_path_factory, make_run, tokenizer) -> dict[str, Path]:
    """Runs and tokenizers, one of each with text that tries to act."""
    root = tmp_path_factory.mktemp("places")
    evil = tokenizers.train([((EVIL + "\n") * 9, "r", "l")], vocab_size=313, pattern="none", priority="F")
    assert any(EVIL.encode() in token for token in evil.token_bytes)
    evil.save(root / "evil-tokenizer")
    tokenizer.save(root / "small")
    make_run(root / "whole", 90)
    make_run(root / EVIL_NAME, 60, rate=2.0, sample=EVIL, prompt=EVIL)
    return {path.name: path for path in root.iterdir()}


@pytest.fixture(scope="module")
def pages(places) -> list[str]:
    """A run, and two tokenizers."""
    return [page_of(places[EVIL_NAME]), page_of(places["evil-tokenizer"], places["small"])]


def check_page(page: dict) -> None:
    assert page["tooWide"] <= 0, page["title"]
    assert page["images"] == 0 and page["fetched"] == 0 and not page["ran"]
    assert page["plots"] >= 7 and page["smallest"] >= 9
    # Text stands out from the page, and so does that of plots.
    assert abs(brightness(page["back"]) - brightness(page["ink"])) > 0.6
    assert page["plotted"] == [page["ink"]]


def test_pages_are_whole_and_silent_on_a_phone_and_nothing_in_them_acts(inspect, pages):
    run, vocabulary = inspect(pages, 390, *LIGHT)
    shown = ["Run", "Loss", "Held-out loss", "Curriculum", "Speed", "Stability", "Sample", "Settings"]
    assert run["title"] == EVIL_NAME and run["sections"] == shown
    assert EVIL in run["text"] and "was cut" not in run["text"]
    assert vocabulary["sections"][:3] == ["Text, token by token", "Vocabulary", "Tokens"]
    # Tokens that try to act are named and drawn.
    assert "</script>" in vocabulary["tokens"][0] and len(vocabulary["tokens"]) > 20
    assert EVIL in vocabulary["text"]
    for page in (run, vocabulary):
        check_page(page)
        assert brightness(page["back"]) > 0.9


def test_pages_are_xml_too(pages):
    for page in pages:
        ElementTree.fromstring(page.partition("\n")[2])


def test_pages_are_dark_where_the_reader_likes_it_dark(inspect, pages):
    for page in inspect(pages, 1200, *DARK):
        check_page(page)
        assert brightness(page["back"]) < 0.1


@pytest.mark.slow
def test_a_comparison_of_runs_and_tokenizers_is_as_sound(inspect, places):
    page = page_of(*places.values())
    assert len(page.encode()) < 5e6
    for width, options in ((390, DARK), (1200, LIGHT)):
        (shown,) = inspect([page], width, *options)
        check_page(shown)
        assert {"Comparison", "Settings that differ", "whole: Curriculum", "Vocabulary"} <= set(shown["sections"])


def brightness(colour: str) -> float:
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def test_the_browser_would_tell_of_errors_and_requests_and_foreign_scripts_do_not_run(browse):
    acts = '<img src="http://127.0.0.1:9/x.png"/><script>console.error("seen")</script>'
    opened = browse(make_page("Bad", [Section(title="x", texts=["@"])]).replace("@", acts))
    assert any("http://127.0.0.1:9/x.png" in line and "Content Security Policy" in line for line in opened.console)
    assert any("inline script" in line for line in opened.console)
    assert not any('"seen"' in line for line in opened.console)
    allowed = browse(f"<!DOCTYPE html><html><head><title></title></head><body>{acts}</body></html>", "return 1;")
    assert any('"seen"' in line for line in allowed.console) and allowed.value == 1


@pytest.mark.slow
def test_a_run_of_a_hundred_thousand_steps_gives_a_small_page_that_says_it_is_thinned(tmp_path, make_run, inspect):
    folder = make_run(tmp_path / "long", 100_000, evaluate_every=500)
    page = page_of(folder)
    assert len(page.encode()) < 1e6
    (shown,) = inspect([page], 390)
    assert "Of 100,000 rows, curves show means over at most 200 stretches" in shown["text"]
    assert "A column is 416.7 steps" in shown["text"]
    assert "the first 100 of" in shown["text"]


@pytest.mark.slow
def test_two_tokenizers_of_a_hundred_thousand_tokens_fit_into_a_page(tmp_path, inspect):
    for name, seed in (("a", 1), ("b", 2)):
        big_tokenizer(seed).save(tmp_path / name)
    page = page_of(tmp_path / "a", tmp_path / "b")
    assert 1e6 < len(page.encode()) < 5e6
    (shown,) = inspect([page], 390)
    assert shown["tokens"]


def big_tokenizer(seed: int) -> Tokenizer:
    """100,000 merges: each token of three bytes from one of two and another byte."""
    import numpy as np

    rng = np.random.default_rng(seed)
    pairs = rng.choice(256 * 256, 2000, replace=False)
    twos = np.stack((pairs // 256, pairs % 256), axis=1)
    threes = rng.choice(2000 * 256, 98_000, replace=False)
    pairs = np.concatenate((twos, np.stack((256 + threes // 256, threes % 256), axis=1)))
    return Tokenizer(pairs, ["<eod>"], "gpt4")
