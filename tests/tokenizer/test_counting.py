from collections import Counter, defaultdict

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.counting import counts as counting
from tokenizer.counting.counts import count_words
from tokenizer.splitting.patterns import PATTERNS

DOCUMENTS = st.lists(
    st.tuples(st.text("ab 1é\n", max_size=20), st.sampled_from(["r", "s", ""]), st.sampled_from(["x", "y", ""])),
    max_size=12,
)


def tables(counts):
    """The counts as plain dictionaries: word -> count, repositories, languages."""
    data = counts.data.tobytes()
    words = [data[a:b].decode() for a, b in zip(counts.offsets[:-1], counts.offsets[1:], strict=True)]
    repositories = {
        word: {counts.repository_names[r] for r in counts.repositories[a:b]}
        for word, a, b in zip(words, counts.repository_offsets[:-1], counts.repository_offsets[1:], strict=True)
    }
    languages = {
        word: {name for number, name in enumerate(counts.language_names) if int(bits[number // 64]) >> number % 64 & 1}
        for word, bits in zip(words, counts.languages, strict=True)
    }
    return words, dict(zip(words, counts.counts.tolist(), strict=True)), repositories, languages


def reference_tables(documents):
    counted, repositories, languages = Counter(), defaultdict(set), defaultdict(set)
    for text, repository, language in documents:
        for word in regex.findall(PATTERNS["gpt4"], text):
            counted[word] += 1
            repositories[word].add(repository)
            languages[word].add(language)
    return list(counted), dict(counted), dict(repositories), dict(languages)


def assert_same(first, second):
    for name in ("data", "offsets", "counts", "repository_offsets", "repositories", "languages"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert first.repository_names == second.repository_names
    assert first.language_names == second.language_names


@given(DOCUMENTS)
def test_counts_and_sources_are_those_of_plain_dictionaries(documents):
    assert tables(count_words(documents, "gpt4")) == reference_tables(documents)


def test_more_than_64_languages_are_kept_apart():
    documents = [(f"all w{number % 150}", "r", f"l{number}") for number in range(300)]
    assert tables(count_words(documents, "gpt4")) == reference_tables(documents)


def test_counts_do_not_depend_on_batches(monkeypatch):
    documents = [(f"a b{number % 7} c{number % 30}\n", f"r{number % 5}", f"l{number % 3}") for number in range(200)]
    whole = count_words(documents, "gpt4")
    monkeypatch.setattr(counting, "_BATCH_CHARACTERS", 20)
    monkeypatch.setattr(counting, "_ENTRIES_BEFORE_SORT", 10)
    assert_same(count_words(documents, "gpt4"), whole)


@pytest.mark.slow
def test_counts_do_not_depend_on_processes(monkeypatch):
    monkeypatch.setattr(counting, "_TASK_CHARACTERS", 300)
    documents = [(f"a b{number % 7} c{number % 30}\n", f"r{number % 5}", f"l{number % 3}") for number in range(200)]
    for processes in (2, 3):
        assert_same(count_words(documents, "gpt4", processes=processes), count_words(documents, "gpt4"))


def test_progress_ends_with_the_total():
    calls = []
    count_words([("ab", "r", "l"), ("c", "r", "l")], "gpt4", progress=lambda *call: calls.append(call))
    assert calls[-1] == ("count words", 3, 3)
