"""The splitter in a page gives, in a browser, the ids of the tokenizer."""

import json
import random

import numpy as np
import pytest
import regex

import tokenizer as tokenizers
from evaluation.report.script_patterns import script_pattern
from evaluation.report.splitter import make_splitter, pack_numbers
from tokenizer import Tokenizer
from tokenizer.interchange.huggingface_import import GPT2_WITH_SINGLE_DIGITS
from tokenizer.measures.page import Section, make_page
from tokenizer.splitting.unicode_classes import class_table

PATTERNS = ("none", "gpt2", "gpt4", "llama3", "qwen2", "o200k", GPT2_WITH_SINGLE_DIGITS)
AWKWARD = (
    "",
    " ",
    "\ufeffBOM \u0085 \u001c\u001f \u2028\u3000x",
    "I'M we'LL it'\u017f don't 'tis O'RE \u212a'\u017e",
    "a" * 5000 + " " * 5000 + "\n" * 50,
    "1234567890 १२३४ ½¾ Ⅷ\r\n\r\n  \r x",
    "ǅungla ʰa 東京 e\u0301e\u0301 \u0301 👩‍👩‍👧 \U0001f9d1\U0001f3fd \U00010400\U00010428",
    "</script><!-- &amp; ]]> \\u003c \x00 \x7f",
    "http://a/b//c/*d*/ //\n/ \t\n \n\t x",
)
# Of few letters, so that merges compete and cross what patterns cut.
ALPHABETS = ("ab", "aabc", "'s\u017fx ", "'tTlLl", "\n\r a", "12a ", "AaB\u0301b", "/.a\n", "\u00e9\u4e1ca")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Awkward ones, and characters drawn from every class and from what patterns name."""
    rng = random.Random(5)
    table = class_table()
    by_class = [np.flatnonzero(table == kind).tolist() for kind in range(9)]
    # What splits by expressions that have no name knows letters and numbers that are newer than the classes.
    newer = regex.compile(r"[\p{L}\p{N}\p{M}\ud800-\udfff]")
    by_class[8] = [code for code in by_class[8] if not newer.match(chr(code))]
    named = "'sdmtlverSDMTLVER\u017f \r\n\t/aA1.,_ \u00a0"

    def draw() -> str:
        return rng.choice(named) if rng.random() < 0.6 else chr(rng.choice(rng.choice(by_class)))

    crowded = ("".join(rng.choices(letters, k=rng.randint(1, 60))) for letters in ALPHABETS for _ in range(40))
    return [*AWKWARD, *crowded, *("".join(draw() for _ in range(rng.randint(1, 40))) for _ in range(400))]


@pytest.fixture(scope="module")
def by_pattern(texts) -> dict[str, Tokenizer]:
    documents = [(text * 2, f"r{number % 5}", f"l{number % 3}") for number, text in enumerate(texts)]
    made = {pattern: tokenizers.train(documents, vocab_size=700, pattern=pattern) for pattern in PATTERNS[:-1]}
    last = made["gpt2"]
    made["digits"] = Tokenizer(last.pairs, (), GPT2_WITH_SINGLE_DIGITS)
    # An imported tokenizer numbers its tokens in an order of its own.
    own = np.random.default_rng(0).permutation(last.vocab_size).astype(np.int32)
    made["own ids"] = Tokenizer(last.pairs, list(last.special_tokens), "gpt2", ids=own)
    return made


def page_of(made: dict[str, Tokenizer]) -> str:
    widget, left_out = make_splitter(made)
    assert not left_out
    return make_page("Splitter", [Section(title="Splitter", widget=widget)])


def test_ids_in_the_browser_are_those_of_the_tokenizer(browse, by_pattern, texts):
    texts_json = json.dumps(texts).replace("<", "\\u003c")
    script = f"const texts = {texts_json}; return texts.map((text) => {list(range(len(by_pattern)))}.map("
    opened = browse(page_of(by_pattern), script + "(at) => splitter.encode(at, text)));")
    assert opened.console == []
    for at, (name, tokenizer) in enumerate(by_pattern.items()):
        ids, offsets = tokenizer.encode_batch(texts)
        for number, (text, found) in enumerate(zip(texts, opened.value, strict=True)):
            assert found[at] == ids[offsets[number] : offsets[number + 1]].tolist(), (name, text)


def test_two_tokenizers_are_shown_side_by_side_token_by_token(browse, by_pattern):
    text = "don't stop\n\tnaïve 東 \u200b12345"
    pair = {name: by_pattern[name] for name in ("gpt4", "none")}
    script = f"""
        splitter.show({json.dumps(text)});
        return Array.from(document.querySelectorAll("#splitter .pane"), (pane) => {{
          const tokens = Array.from(pane.querySelectorAll("[data-at]"));
          tokens[0].click();
          return {{
            name: pane.querySelector("select").selectedOptions[0].textContent,
            figures: pane.querySelector(".figures").textContent,
            titles: tokens.map((token) => token.title),
            own: tokens.filter((token) => token.classList.contains("own")).length,
            detail: pane.querySelector(".detail").textContent,
          }};
        }});"""
    opened = browse(page_of(pair), script)
    assert opened.console == []
    ids = {name: tokenizer.encode(text) for name, tokenizer in pair.items()}
    spans = {name: spans_of(tokenizer, ids[name]) for name, tokenizer in pair.items()}
    for (name, tokenizer), shown, other in zip(pair.items(), opened.value, ("none", "gpt4"), strict=True):
        rate = len(text.encode()) / len(ids[name])
        own = len(spans[name] - spans[other])
        assert shown["name"] == name
        assert (
            shown["figures"]
            == f"{len(ids[name])} tokens, {rate:.2f} bytes a token, {own} of them not on the other side"
        )
        assert [title.split()[1] for title in shown["titles"]] == list(map(str, ids[name]))
        assert shown["own"] == own
        assert f"id {ids[name][0]}" in shown["detail"]
        for title, number in zip(shown["titles"], ids[name], strict=True):
            merge = number - 256
            if merge >= 0:
                made = tokenizer.merges
                counts = (made.frequency[merge], made.repositories[merge], made.languages[merge])
                assert title.endswith("F {:,}, R {:,}, L {:,}".format(*counts))


def spans_of(tokenizer: Tokenizer, ids: list[int]) -> set[tuple[int, int]]:
    ends = np.cumsum(tokenizer.token_lengths[ids]).tolist()
    return set(zip([0, *ends], ends, strict=False))


def test_numbers_are_packed_seven_bits_a_byte():
    assert pack_numbers([0, 127, 128, 16384, 2**40]) == "AH+AAYCAAYCAgICAIA=="
    assert pack_numbers([]) == ""


def test_every_named_pattern_has_one_for_the_page_and_others_are_left_out_with_a_reason(by_pattern):
    assert all(script_pattern(tokenizer.pattern) is not None for tokenizer in by_pattern.values())
    other = Tokenizer(np.zeros((0, 2)), (), r"\w+")
    widget, left_out = make_splitter({"other": other})
    assert widget is None
    assert left_out == ["other is not among them: its pattern is none of those that the page can run."]


def test_what_would_make_a_page_too_large_is_left_out_with_a_reason(monkeypatch, by_pattern):
    named = [(name, by_pattern["gpt2"]) for name in "abc"]

    def stored(number: int) -> tuple[list[dict], list[str]]:
        widget, left_out = make_splitter(dict(named[:number]))
        return json.loads(widget.data["splitter-data"])["tokenizers"] if widget else [], left_out

    size = len(json.dumps(stored(1)[0][0]))
    monkeypatch.setattr("evaluation.report.splitter.MOST_CHARACTERS", 2 * size)
    kept, left_out = stored(3)
    assert [one["name"] for one in kept] == ["a", "b"]
    assert left_out == ["c is not among them: its merges would make the page larger than 5 MB."]
