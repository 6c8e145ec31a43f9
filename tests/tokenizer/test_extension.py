"""Going on from known merges: what one training would have made, and the plain algorithm on new documents."""

import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer import Tokenizer, TokenizerError, extend, train
from tokenizer.counting.counts import count_words
from tokenizer.interchange.tiktoken_ranks import export_tiktoken
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


@settings(deadline=None, max_examples=40)
@given(corpora(), st.integers(0, 12), OPTIONS)
def test_going_on_gives_the_merges_of_one_training(documents, num_first, options):
    counts = count_words(documents, "gpt4")
    whole = merge_words(counts, num_merges=40, **options)
    first = merge_words(counts, num_merges=num_first, **options)
    rest = merge_words(counts, num_merges=40 - num_first, known_pairs=first.pairs, **options)
    for name in ("pairs", "frequency", "repositories", "languages"):
        both = np.concatenate((getattr(first, name), getattr(rest, name)))
        assert np.array_equal(both, getattr(whole, name)), name


@settings(deadline=None, max_examples=40)
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


@pytest.fixture(scope="module")
def other_documents():
    return [
        (
            f"fn main() {{ let mut whole{n % 3} = measure(&total) + 東京{n}; vector.push(2048); }}\n" * 2,
            f"new{n % 4}",
            "rs",
        )
        for n in range(9)
    ]


def test_tokens_keep_their_ids_and_new_ones_follow(small_tokenizer, other_documents):
    extended = extend(small_tokenizer, other_documents, num_merges=30)
    size = small_tokenizer.vocab_size
    assert extended.vocab_size == size + 30
    assert extended.token_bytes[:size] == small_tokenizer.token_bytes
    assert extended.special_tokens == small_tokenizer.special_tokens
    assert all(len(token) > 1 for token in extended.token_bytes[size:])
    texts = [text for text, *_ in other_documents]
    assert extended.encode_batch(texts)[0].size < small_tokenizer.encode_batch(texts)[0].size
    assert all(extended.decode(extended.encode(text)) == text for text in texts)


def test_extending_on_the_same_documents_is_one_longer_training(documents):
    whole, first = (train(documents, vocab_size=size) for size in (400, 340))
    extended = extend(first, documents, num_merges=60, priority="F*logR*L")
    assert np.array_equal(extended.pairs, whole.pairs)
    assert extended.merges is not None and whole.merges is not None
    assert np.array_equal(extended.merges.frequency, whole.merges.frequency)


def test_an_extended_tokenizer_comes_back_whole_and_tells_its_base(small_tokenizer, other_documents, tmp_path):
    extended = extend(small_tokenizer, other_documents, num_merges=30, priority="F")
    extended.save(tmp_path / "extended")
    loaded = Tokenizer.load(tmp_path / "extended")
    assert loaded.fingerprint == extended.fingerprint and loaded.special_tokens == extended.special_tokens
    assert loaded.provenance["extends"]["fingerprint"] == small_tokenizer.fingerprint
    assert loaded.provenance["options"]["priority"] == "F"
    again = extend(loaded, other_documents, num_merges=5, priority="F")
    assert again.token_bytes[: loaded.vocab_size] == loaded.token_bytes


def test_what_is_not_known_of_old_merges_is_null(other_documents, tmp_path):
    base = Tokenizer(np.array([[97, 98], [256, 99]]), ["<eod>"], "none")
    extend(base, other_documents, num_merges=3, priority="F").save(tmp_path / "made")
    columns = pq.read_table(tmp_path / "made" / "merges.parquet").to_pydict()
    assert columns["frequency"][:2] == [None, None] and all(columns["frequency"][2:])
    assert columns["id"] == [256, 257, 259, 260, 261]
    loaded = Tokenizer.load(tmp_path / "made")
    assert loaded.merges is not None and loaded.merges.languages.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.peers
def test_peers_give_an_extended_tokenizer_the_same_ids(small_tokenizer, documents, other_documents, tmp_path):
    peer, tiktoken = pytest.importorskip("tokenizers"), pytest.importorskip("tiktoken")
    extended = extend(small_tokenizer, other_documents, num_merges=30)
    extended.save(tmp_path / "made")
    theirs = peer.Tokenizer.from_file(str(tmp_path / "made" / "tokenizer.json"))
    (tmp_path / "ranks").write_bytes(export_tiktoken(extended))
    ranks = pytest.importorskip("tiktoken.load").load_tiktoken_bpe(str(tmp_path / "ranks"))
    specials = extended.special_tokens
    ranked = tiktoken.Encoding("x", pat_str=extended.pattern, mergeable_ranks=ranks, special_tokens=specials)
    for text in [*(text for text, *_ in other_documents), *(document.text for document in documents)]:
        assert theirs.encode(text).ids == extended.encode(text) == ranked.encode_ordinary(text)
    assert all(theirs.token_to_id(name) == number for name, number in specials.items())
    assert theirs.get_vocab_size() == ranked.n_vocab == extended.vocab_size
    back = Tokenizer.from_tiktoken(tmp_path / "ranks", special_tokens=list(specials))
    assert back.fingerprint == extended.fingerprint


def test_imported_tokenizers_with_ids_of_their_own_are_extended(other_documents, tmp_path):
    order = np.random.default_rng(1).permutation(260)
    base = Tokenizer(np.array([[116, 111], [256, 116], [97, 108]]), ["<e>"], "gpt2", ids=order)
    extended = extend(base, other_documents, num_merges=20)
    assert extended.token_bytes[:260] == base.token_bytes and extended.special_tokens == base.special_tokens
    extended.save(tmp_path / "made")
    assert Tokenizer.load(tmp_path / "made").fingerprint == extended.fingerprint


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6), corpora())
def test_no_new_merge_spells_a_token_that_is_there(numbers, documents):
    """`Tokenizer` refuses two tokens of the same bytes; any base is extended, or refused because of its own merges."""
    pairs = []
    for left, right in numbers:
        pairs.append([n + 97 if n < 4 else 256 + (n - 4) % max(len(pairs), 1) for n in (left, right)])
        if not pairs[:-1] and max(pairs[0]) > 255:
            pairs.pop()
    try:
        base = Tokenizer(np.array(pairs).reshape(-1, 2), [], "gpt4")
    except TokenizerError:
        return
    is_sound = all(len(base.encode(token.decode())) == 1 for token in base.token_bytes[256:])
    if is_sound:
        extended = extend(base, documents, num_merges=50, priority="F")
        assert len(set(extended.token_bytes)) == extended.vocab_size
    else:
        with pytest.raises(TokenizerError, match="tokenizer must make all its tokens from their own bytes"):
            extend(base, documents, num_merges=50, priority="F")


BAD = {
    "no merges": ({"num_merges": 0}, "num_merges must be at least 1, got 0"),
    "another pattern": ({"num_merges": 1, "pattern": "gpt2"}, "settings must be among priority, .* got 'pattern'"),
    "an unknown priority": ({"num_merges": 1, "priority": "R"}, "priority must be one of auto, F"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_impossible_extensions_are_refused(small_tokenizer, options, message):
    with pytest.raises(TokenizerError, match=message):
        extend(small_tokenizer, [], **options)


def test_a_token_that_its_merges_do_not_make_is_named():
    base = Tokenizer(np.array([[97, 98], [98, 99], [97, 257]]), [])
    with pytest.raises(TokenizerError, match=r"got b'abc', which its merges leave in parts; .* cannot be extended"):
        extend(base, [("abc", "", "")], num_merges=1)


def test_running_out_of_pairs_is_said(small_tokenizer, caplog):
    extended = extend(small_tokenizer, [("qqqq", "r", "l")], num_merges=9)
    assert extended.vocab_size == small_tokenizer.vocab_size + 2
    assert "the vocabulary has 393 tokens, 7 fewer than vocab_size 400" in caplog.text
