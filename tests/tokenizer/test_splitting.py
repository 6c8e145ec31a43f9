import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.errors import TokenizerError
from tokenizer.splitting.documents import split_documents
from tokenizer.splitting.patterns import PATTERNS

VECTORISED = ["gpt2", "gpt4", "llama3", "o200k", "qwen2"]

# Of every class of the patterns, in one to four bytes of UTF-8, all older than Unicode 16; what contractions look at
# is there more than once.
ALPHABET = "asSdmtlLveErR'''   \n\n\r\t.,-_=/09٣é中\u00a0\u2028\u017f\u0301\u2160😀𝒳ǅʰ"


def words_of(texts, pattern):
    words = split_documents(texts, pattern)
    data = words.data.tobytes()
    assert data == "".join(texts).encode()
    documents = []
    for first, last in pairwise(words.document_words):
        bounds = words.starts[first : last + 1].tolist()
        documents.append([data[a:b].decode() for a, b in pairwise(bounds)])
    return documents


def reference_words(texts, pattern):
    return [regex.findall(PATTERNS[pattern], text) for text in texts]


@given(st.lists(st.text(ALPHABET, max_size=12), max_size=8), st.sampled_from(VECTORISED))
def test_vectorised_patterns_split_as_their_regular_expressions(texts, pattern):
    assert words_of(texts, pattern) == reference_words(texts, pattern)


@pytest.mark.parametrize("pattern", VECTORISED)
def test_vectorised_patterns_split_as_their_regular_expressions_on_many_texts_of_few_characters(pattern):
    generator = random.Random(0)
    for _ in range(100):
        texts = []
        for _ in range(200):
            letters = generator.sample(ALPHABET, generator.randint(1, 7))
            texts.append("".join(generator.choices(letters, k=generator.randint(0, 12))))
        assert words_of(texts, pattern) == reference_words(texts, pattern)


@pytest.mark.parametrize("pattern", VECTORISED)
def test_source_code_splits_as_its_regular_expression(pattern):
    texts = [path.read_text() for path in sorted(Path(str(regex.__file__)).parent.glob("*.py"))]
    texts += [text.replace("\n", "\r\n") for text in texts]
    assert words_of(texts, pattern) == reference_words(texts, pattern)


@pytest.mark.parametrize("pattern", ["gpt2", "qwen2", "o200k", r"\w+|\s", r"b"])
def test_any_other_pattern_gives_its_matches_and_what_lies_between(pattern):
    expression = str(PATTERNS.get(pattern, pattern))
    texts = ["It's 1234 été\r\n  x", "", "aba b", "\n"]
    for text, words in zip(texts, words_of(texts, pattern), strict=True):
        assert "".join(words) == text
        remaining = iter(words)
        assert all(match in remaining for match in regex.findall(expression, text))


def test_pattern_none_makes_each_document_one_word():
    assert words_of(["a b\n", "", "é"], "none") == [["a b\n"], [], ["é"]]


def test_documents_do_not_depend_on_their_neighbours():
    texts = ["x ", " y", "12", "345", "x'", "s", "l", "\n", " \n z", "!", "\n\n", "/", "x", "/\n", "/a", "中", "B"]
    for pattern in VECTORISED:
        assert words_of(texts, pattern) == [words_of([text], pattern)[0] for text in texts]


def test_documents_larger_than_a_block_are_split_as_small_ones():
    text = "def f(x):\n    return x  # it's 12345\n"
    assert words_of([text * 20_000, text], "gpt4")[0] == words_of([text], "gpt4")[0] * 20_000


@pytest.mark.parametrize("letter", ["a", "A", " ", "\n", "=", "/", "'", "1", "é", "中", "\u0301"])
@pytest.mark.parametrize("pattern", VECTORISED)
def test_long_runs_split_as_the_regular_expression(letter, pattern):
    texts = [letter * 5_000, letter * 5_000 + "x", ("x" + letter * 3) * 2_000]
    assert words_of(texts, pattern) == reference_words(texts, pattern)


def test_no_documents_give_no_words():
    words = split_documents([], "gpt4")
    assert words.data.size == 0
    assert words.starts.tolist() == [0]
    assert words.document_words.tolist() == [0]


def test_results_have_the_promised_types():
    words = split_documents(["ab cd"], "gpt4")
    assert (words.data.dtype, words.starts.dtype, words.document_words.dtype) == (np.uint8, np.int64, np.int64)


def test_a_lone_surrogate_is_named():
    with pytest.raises(TokenizerError, match=r"lone surrogate U\+D800 at character 1 of document 1"):
        split_documents(["a", "b\ud800"], "gpt4")


def test_a_faulty_expression_is_refused_in_one_line():
    with pytest.raises(TokenizerError, match="pattern must be one of") as error:
        split_documents(["a"], "(")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("pattern", ["a\ud800", "(?:" * 5000 + "a" + ")" * 5000, b"abc", None, 3])
def test_what_is_no_expression_is_refused_in_a_line(pattern):
    with pytest.raises(TokenizerError, match=r"^pattern must be [^\n]*$"):
        split_documents(["a"], pattern)
