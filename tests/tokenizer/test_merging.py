"""Merges in batches against the plain algorithm: one merge at a time, everything counted again after each."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer.counting.counts import count_words
from tokenizer.errors import TokenizerError
from tokenizer.merging.priorities import PRIORITIES, log_table, resolve_priority
from tokenizer.merging.ties import TIES, byte_alphabet
from tokenizer.merging.trainer import merge_words
from tokenizer.splitting.patterns import PATTERNS

HF_LETTERS = byte_alphabet()


@dataclass
class Word:
    tokens: list[int]
    count: int = 0
    repositories: set[str] = field(default_factory=set)
    languages: set[str] = field(default_factory=set)


def plain_words(documents, pattern):
    words = {}
    for text, repository, language in documents:
        for part in regex.findall(PATTERNS[pattern], text) if pattern != "none" else [text] * (text != ""):
            word = words.setdefault(part, Word(list(part.encode())))
            word.count += 1
            word.repositories.add(repository)
            word.languages.add(language)
    return list(words.values())


def plain_value(priority, frequency, repositories, languages, logs):
    value = float(frequency)
    if "log" in priority:
        value *= logs[repositories]
    if priority.endswith("*L"):
        value *= languages
    return value


def plain_merges(
    documents,
    pattern,
    *,
    num_merges,
    priority,
    min_repositories=1,
    min_languages=1,
    max_token_length=None,
    ties="ids",
    reserved=(),
):
    words = plain_words(documents, pattern)
    logs = log_table(len({repository for _, repository, _ in documents}), shift=int("R+1" in priority))
    spellings = {byte: bytes([byte]) for byte in range(256)}
    merges, skipped, steps = [], set(), 0
    while len(merges) < num_merges:
        found = {}
        for word in words:
            for pair in itertools.pairwise(word.tokens):
                frequency, repositories, languages = found.setdefault(pair, (0, set(), set()))
                found[pair] = (frequency + word.count, repositories | word.repositories, languages | word.languages)
        order = []
        for pair, (frequency, repositories, languages) in found.items():
            value = plain_value(priority, frequency, len(repositories), len(languages), logs)
            spelling = spellings[pair[0]] + spellings[pair[1]]
            is_left_aside = spelling in reserved or (max_token_length and len(spelling) > max_token_length)
            if value > 0 and pair not in skipped and not is_left_aside:
                order.append((-value, plain_key(ties, pair, len(order)), pair))
        if not order:
            break
        _, _, pair = min(order)
        steps += 1
        frequency, repositories, languages = found[pair]
        if len(repositories) < min_repositories or len(languages) < min_languages:
            skipped.add(pair)
            continue
        token = 256 + len(merges)
        spellings[token] = spellings[pair[0]] + spellings[pair[1]]
        merges.append((*pair, frequency, len(repositories), len(languages)))
        for word in words:
            word.tokens = plain_merge(word.tokens, pair, token)
    return merges, steps


def plain_key(ties, pair, place):
    """Of equal priorities the smallest is first; `place` counts pairs as they are met."""
    if ties == "first":
        return place
    if ties == "ids":
        return pair
    return tuple(HF_LETTERS[token] if token < 256 else chr(0x10000 + token) for token in pair)


def plain_merge(tokens, pair, token):
    merged, at = [], 0
    while at < len(tokens):
        if tuple(tokens[at : at + 2]) == pair:
            merged.append(token)
            at += 2
        else:
            merged.append(tokens[at])
            at += 1
    return merged


def batched_merges(documents, pattern, **options):
    merges = merge_words(count_words(documents, pattern), **options)
    columns = (merges.frequency, merges.repositories, merges.languages)
    rows = zip(merges.pairs.tolist(), *(column.tolist() for column in columns), strict=True)
    return [(*pair, *numbers) for pair, *numbers in rows], merges.steps


@st.composite
def corpora(draw):
    """Documents over one to four letters, with long runs, in up to four repositories and many languages or few."""
    letters = draw(st.sampled_from(["a", "ab", "abc", "abcd"]))
    word = st.one_of(st.text(letters, min_size=1, max_size=8), st.integers(1, 30).map(lambda size: "a" * size))
    text = st.lists(word, max_size=8).map(" ".join)
    repository = st.integers(0, 3).map("r{}".format)
    language = st.integers(0, draw(st.sampled_from([0, 2, 80]))).map("l{}".format)
    return draw(st.lists(st.tuples(text, repository, language), min_size=1, max_size=8))


@settings(deadline=None)
@given(
    corpora(),
    st.sampled_from(["gpt4", "none"]),
    st.fixed_dictionaries(
        {
            "num_merges": st.sampled_from([1, 5, 1000]),
            "priority": st.sampled_from(PRIORITIES),
            "min_repositories": st.integers(1, 3),
            "min_languages": st.integers(1, 3),
            "max_token_length": st.sampled_from([None, 2, 3, 5]),
            "ties": st.sampled_from(TIES),
            "reserved": st.sampled_from([(), (b"ab",), (b"aa", b"ba", b" ab", b"abcab"), (b"aaaa", b"a a")]),
        }
    ),
)
def test_batches_make_the_merges_of_the_plain_algorithm(documents, pattern, options):
    assert batched_merges(documents, pattern, **options) == plain_merges(documents, pattern, **options)


@pytest.mark.parametrize("letters", ["a", "ab", "abc", "abcd"])
@pytest.mark.parametrize("priority", PRIORITIES)
def test_random_corpora_until_no_pair_is_left(letters, priority):
    generator = np.random.default_rng([len(letters), PRIORITIES.index(priority)])
    for _ in range(12):
        documents = []
        for _ in range(generator.integers(1, 7)):
            words = ["".join(generator.choice(list(letters), generator.integers(1, 14))) for _ in range(8)]
            documents.append((" ".join(words), f"r{generator.integers(3)}", f"l{generator.integers(3)}"))
        options = {"num_merges": 10_000, "priority": priority, "min_repositories": int(generator.integers(1, 3))}
        options["ties"] = generator.choice(TIES)
        assert batched_merges(documents, "gpt4", **options) == plain_merges(documents, "gpt4", **options)


def test_a_pair_lowered_by_a_position_that_its_run_passes_over():
    documents = [("aaab aaab ab aa", "r", "l")]  # merging (a, b) lowers (a, a)
    options = {"num_merges": 10, "priority": "F"}
    assert batched_merges(documents, "gpt4", **options) == plain_merges(documents, "gpt4", **options)


@pytest.mark.parametrize(("priority", "ties"), [("F", "ids"), ("F*logR*L", "ids"), ("F", "hf"), ("F", "first")])
def test_real_code_merges_as_in_the_plain_algorithm(priority, ties):
    sources = sorted(Path(str(regex.__file__)).parent.glob("*.py"))
    documents = [
        (text[:3000], path.name, f"l{at % 3}") for at, path in enumerate(sources) for text in [path.read_text()]
    ]
    options = {"num_merges": 150, "priority": priority, "min_languages": 2, "ties": ties}
    assert batched_merges(documents, "gpt4", **options) == plain_merges(documents, "gpt4", **options)


@pytest.mark.peers
@pytest.mark.slow
def test_merges_of_code_equal_rustbpe():
    rustbpe = pytest.importorskip("rustbpe")
    texts = [path.read_text() for path in sorted(Path(str(np.__file__)).parent.glob("lib/*.py"))]
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(texts), vocab_size=256 + 3000, pattern=PATTERNS["gpt4"])
    expected = [bytes(token) for token, _ in sorted(peer.get_mergeable_ranks(), key=lambda item: item[1])]
    merges = merge_words(count_words([(text, "r", "l") for text in texts], "gpt4"), num_merges=3000, priority="F")
    tokens = [bytes([value]) for value in range(256)]
    for left, right in merges.pairs.tolist():
        tokens.append(tokens[left] + tokens[right])
    assert tokens == expected


def test_the_order_of_documents_does_not_matter():
    documents = [(f"abc abd ab{'c' * (number % 4)} dab", f"r{number % 3}", f"l{number % 2}") for number in range(12)]
    forward, backward = (
        merge_words(count_words(order, "gpt4"), num_merges=50) for order in (documents, documents[::-1])
    )
    assert np.array_equal(forward.pairs, backward.pairs)


def test_counts_beyond_32_bits_are_exact():
    counts = count_words([("ab ab ac", "r", "l")], "gpt4")
    counts.counts[:] *= 2**40
    merges = merge_words(counts, num_merges=1, priority="F")
    assert merges.frequency.tolist() == [2 * 2**40]


def test_no_words_make_no_merges():
    merges = merge_words(count_words([], "gpt4"), num_merges=5)
    assert merges.pairs.shape == (0, 2)
    assert merges.steps == 0


def test_no_merges_wanted_makes_none():
    assert len(merge_words(count_words([("ab", "r", "l")], "gpt4"), num_merges=0, priority="F").pairs) == 0


def test_auto_depends_on_the_sources():
    assert resolve_priority("auto", num_repositories=9, num_languages=2) == "F*logR*L"
    assert resolve_priority("auto", num_repositories=9, num_languages=1) == "F*logR"
    assert resolve_priority("auto", num_repositories=1, num_languages=1) == "F"
    assert resolve_priority("F*L", num_repositories=9, num_languages=2) == "F*L"


@pytest.mark.parametrize(("option", "value"), [("priority", "R"), ("ties", "random")])
def test_unknown_options_are_refused(option, value):
    with pytest.raises(TokenizerError, match=f"{option} must be .* got '{value}'"):
        merge_words(count_words([("ab", "r", "l")], "gpt4"), **{"num_merges": 1, option: value})
