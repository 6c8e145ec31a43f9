"""Going on from known merges: what one training would have made, and the plain algorithm on new documents."""

import itertools

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer.counting.counts import count_words
from tokenizer.merging.priorities import PRIORITIES
from tokenizer.merging.ties import TIES
from tokenizer.merging.trainer import merge_words
from tokenizer.splitting.patterns import PATTERNS

OPTIONS = st.fixed_dictionaries(
    {
        "priority": st.sampled_from(PRIORITIES),
        "min_repositories": st.integers(1, 3),
        "min_languages": st.integers(1, 2),
        "max_token_length": st.sampled_from([None, 2, 3, 5]),
        "ties": st.sampled_from(TIES),
    }
)


@st.composite
def corpora(draw):
    """Documents over two to four letters, with long runs, in a few repositories and languages."""
    letters = draw(st.sampled_from(["ab", "abc", "abcd"]))
    word = st.one_of(st.text(letters, min_size=1, max_size=8), st.integers(1, 30).map(lambda size: "a" * size))
    text = st.lists(word, max_size=8).map(" ".join)
    source = st.tuples(text, st.integers(0, 3).map("r{}".format), st.integers(0, 2).map("l{}".format))
    return draw(st.lists(source, min_size=1, max_size=8))


def plain_extension(documents, known, num_merges):
    """Merges by F: every word a list of tokens, known merges made one by one, then the most frequent pairs."""
    words = [list(word.encode()) for text, *_ in documents for word in regex.findall(PATTERNS["gpt4"], text)]
    known = list(known)
    made = known[:]
    for number, pair in enumerate(made):
        words = [plain_merge(word, pair, 256 + number) for word in words]
    while len(made) < len(known) + num_merges:
        found = [pair for word in words for pair in itertools.pairwise(word)]
        if not found:
            break
        best = min(set(found), key=lambda pair: (-found.count(pair), pair))
        words = [plain_merge(word, best, 256 + len(made)) for word in words]
        made.append(best)
    return made[len(known) :]


def plain_merge(tokens, pair, token):
    merged, at = [], 0
    while at < len(tokens):
        is_pair = tuple(tokens[at : at + 2]) == pair
        merged.append(token if is_pair else tokens[at])
        at += 2 if is_pair else 1
    return merged


@settings(deadline=None)
@given(corpora(), st.integers(0, 12), OPTIONS)
def test_going_on_gives_the_merges_of_one_training(documents, num_first, options):
    counts = count_words(documents, "gpt4")
    whole = merge_words(counts, num_merges=40, **options)
    first = merge_words(counts, num_merges=num_first, **options)
    rest = merge_words(counts, num_merges=40 - num_first, known_pairs=first.pairs, **options)
    for name in ("pairs", "frequency", "repositories", "languages"):
        both = np.concatenate((getattr(first, name), getattr(rest, name)))
        assert np.array_equal(both, getattr(whole, name)), name


@settings(deadline=None)
@given(corpora(), corpora(), st.integers(1, 10))
def test_new_documents_are_merged_as_by_the_plain_algorithm(old, new, num_known):
    known = merge_words(count_words(old, "gpt4"), num_merges=num_known, priority="F").pairs
    made = merge_words(count_words(new, "gpt4"), num_merges=12, priority="F", known_pairs=known)
    assert [tuple(pair) for pair in made.pairs.tolist()] == plain_extension(new, map(tuple, known.tolist()), 12)


@pytest.mark.parametrize("ties", TIES)
def test_long_words_go_on_too(ties):
    counts = count_words([("ab" * 300 + "abc" * 200 + "aab" * 100, "r", "l")], "gpt4")
    whole = merge_words(counts, num_merges=30, priority="F", ties=ties).pairs
    rest = merge_words(counts, num_merges=22, priority="F", ties=ties, known_pairs=whole[:8]).pairs
    assert np.array_equal(rest, whole[8:])
