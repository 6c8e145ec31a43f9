import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer import Tokenizer, TokenizerError, train
from tokenizer.commands import main
from tokenizer.counting.counts import count_words
from tokenizer.measures.pruning import order_leaves, prune, pruning_curve, spread_sizes
from tokenizer.splitting.documents import split_documents

LETTERS = st.text("abc ", min_size=1, max_size=40)
CORPORA = st.lists(st.tuples(LETTERS, st.sampled_from("rs"), st.sampled_from("xy")), min_size=1, max_size=6)


def encode_naively(text: str, tokenizer: Tokenizer) -> list[int]:
    """Within each word, merge the earliest merge that is there, everywhere from the left, until there is none."""
    ranks = {pair: rank for rank, pair in enumerate(map(tuple, tokenizer.pairs.tolist()))}
    words = split_documents([text], tokenizer.pattern)
    encoded = []
    for start, end in zip(words.starts[:-1], words.starts[1:], strict=True):
        symbols = words.data[start:end].tolist()
        while candidates := [ranks[pair] for pair in pairwise(symbols) if pair in ranks]:
            rank, merged = min(candidates), []
            while symbols:
                is_pair = tuple(symbols[:2]) == tuple(tokenizer.pairs[rank])
                merged.append(256 + rank if is_pair else symbols[0])
                symbols = symbols[2 if is_pair else 1 :]
            symbols = merged
        encoded += symbols
    return encoded


def order_leaves_naively(pairs: list[tuple[int, ...]], frequencies: list[int]) -> list[int]:
    """Again and again, of all leaves the rarest, of equal ones the latest, goes, its frequency to its parts."""
    frequencies, order = list(frequencies), []
    merges = {256 + number: pair for number, pair in enumerate(pairs)}
    while merges:
        leaves = [token for token in merges if not any(token in pair for pair in merges.values())]
        worst = min(leaves, key=lambda token: (frequencies[token], -token))
        order.append(worst - 256)
        for part in merges.pop(worst):
            frequencies[part] += frequencies[worst]
    return order


def prune_leaves_naively(tokenizer: Tokenizer, texts: list[str], num_removed: int) -> list[bytes]:
    """The tokens that remain, in order."""
    frequencies = [0] * (256 + len(tokenizer.pairs))
    for text in texts:
        for token in encode_naively(text, tokenizer):
            frequencies[token] += 1
    order = order_leaves_naively([tuple(pair) for pair in tokenizer.pairs.tolist()], frequencies)
    return [tokenizer.decode_bytes([256 + merge]) for merge in sorted(order[num_removed:])]


@given(st.data())
def test_leaves_go_in_the_order_of_the_plain_algorithm(data):
    num = data.draw(st.integers(0, 12))
    pairs = [data.draw(st.tuples(*2 * [st.sampled_from([97, 98, *range(256, 256 + m)])])) for m in range(num)]
    frequencies = [0] * 256 + data.draw(st.lists(st.integers(0, 6), min_size=num, max_size=num))
    order = order_leaves(np.array(pairs, np.int32).reshape(-1, 2), np.array(frequencies))
    assert order.tolist() == order_leaves_naively(pairs, frequencies)


def learned(tokenizer):
    return tokenizer.token_bytes[256 : 256 + len(tokenizer.pairs)]


@pytest.fixture(scope="module")
def chosen(documents):
    """Some documents only: most tokens are rarer in them than later merges are."""
    return documents[:2]


@pytest.fixture(scope="module")
def counts(chosen, small_tokenizer):
    return count_words(chosen, small_tokenizer.pattern)


@settings(max_examples=60, deadline=None)
@given(corpus=CORPORA, texts=st.lists(LETTERS, min_size=1, max_size=4), removed=st.integers(0, 30), data=st.data())
def test_pruning_gives_the_size_asked_and_encodes_as_bpe_of_what_remains(corpus, texts, removed, data):
    original = train(corpus, vocab_size=256 + 30, special_tokens=("<eod>",), num_reserved=0, priority="F")
    removed = min(removed, len(original.pairs))
    on = count_words([(text, "", "") for text in texts], original.pattern)
    by = data.draw(st.sampled_from(["end", "leaves"]))
    pruned = prune(original, original.vocab_size - removed, by=by, counts=on)
    assert pruned.vocab_size == original.vocab_size - removed
    assert pruned.special_tokens == {"<eod>": pruned.vocab_size - 1}
    # each merge is one of the original's, of the same parts, in the same order
    before, after = (
        [tuple(map(bytes, (t.token_bytes[left], t.token_bytes[right]))) for left, right in t.pairs.tolist()]
        for t in (original, pruned)
    )
    assert [merge for merge in before if merge in set(after)] == after
    if by == "leaves":
        assert learned(pruned) == prune_leaves_naively(original, texts, removed)
    else:
        assert learned(pruned) == learned(original)[: len(original.pairs) - removed]
    for text in [*texts, *(document[0] for document in corpus)]:
        assert pruned.encode(text) == encode_naively(text, pruned)
        assert pruned.decode(pruned.encode(text)) == text


def test_frequency_of_a_leaf_goes_to_its_parts_and_of_equal_leaves_the_latest_goes():
    pairs = np.array([[97, 98], [99, 100], [256, 257], [256, 256]], np.int32)  # ab, cd, abcd, abab
    frequencies = np.zeros(260, np.int64)
    frequencies[256:] = [0, 4, 5, 2]
    # abab (2), which gives ab 4; abcd (5), which gives ab 9, cd 9; of these two, cd is the later
    assert order_leaves(pairs, frequencies).tolist() == [3, 2, 1, 0]
    frequencies[257] = 9
    assert order_leaves(pairs, frequencies).tolist() == [3, 2, 0, 1]


def test_numbers_of_the_remaining_merges_stay(small_tokenizer, counts, tmp_path):
    pruned = prune(small_tokenizer, 300, by="leaves", counts=counts)
    pruned.save(tmp_path / "pruned")
    loaded = Tokenizer.load(tmp_path / "pruned")
    places = [learned(small_tokenizer).index(token) for token in learned(pruned)]
    assert loaded.merges is not None and places != list(range(len(places)))
    for name in ("frequency", "repositories", "languages"):
        expected = getattr(small_tokenizer.merges, name)[places]
        assert np.array_equal(getattr(loaded.merges, name), expected)
    assert loaded.merges.steps == small_tokenizer.merges.steps
    assert list(loaded.special_tokens) == list(small_tokenizer.special_tokens)
    assert list(loaded.special_tokens.values()) == list(range(289, 300))


def test_provenance_names_the_original_and_how_it_was_pruned(small_tokenizer, counts):
    once = prune(small_tokenizer, 350, by="leaves", counts=counts)
    twice = prune(once, 300)
    assert once.provenance["pruned"]["from"]["fingerprint"] == small_tokenizer.fingerprint
    assert once.provenance["pruned"]["words"]["occurrences"] == counts.counts.sum()
    assert once.provenance["original"] == small_tokenizer.provenance
    assert twice.provenance["pruned"] == {"by": "end", "from": {"fingerprint": once.fingerprint, "vocab_size": 350}}
    assert twice.provenance["original"]["original"] == small_tokenizer.provenance


def test_pruning_nothing_changes_no_id_and_pruning_all_leaves_bytes(small_tokenizer, counts, documents):
    whole, bare = (prune(small_tokenizer, size, by="leaves", counts=counts) for size in (391, 267))
    assert whole.fingerprint == small_tokenizer.fingerprint
    text = documents[3].text
    assert bare.encode(text) == list(text.encode())


def test_pruning_in_two_steps_from_the_end_equals_one(small_tokenizer):
    assert prune(prune(small_tokenizer, 340), 290).fingerprint == prune(small_tokenizer, 290).fingerprint


@pytest.mark.parametrize("by", ["end", "leaves"])
def test_tokenizers_with_ids_of_their_own_prune_to_the_same_tokens(small_tokenizer, counts, documents, by):
    ids = np.random.default_rng(0).permutation(391)
    own = Tokenizer(small_tokenizer.pairs, list(small_tokenizer.special_tokens), ids=ids)
    pruned, expected = (prune(t, 310, by=by, counts=counts) for t in (own, small_tokenizer))
    assert pruned.fingerprint == expected.fingerprint and pruned.merges is None
    assert pruned.decode(pruned.encode(documents[2].text)) == documents[2].text


@pytest.mark.peers
@pytest.mark.parametrize("by", ["end", "leaves"])
def test_other_libraries_encode_as_the_pruned_tokenizer_does(small_tokenizer, counts, documents, tmp_path, by):
    tokenizers, tiktoken = pytest.importorskip("tokenizers"), pytest.importorskip("tiktoken")
    pruned = prune(small_tokenizer, 310, by=by, counts=counts)
    pruned.save(tmp_path / "pruned")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "pruned" / "tokenizer.json"))
    # by ranks alone, as tiktoken merges: exact as long as no part of a token is missing
    ranks = {token: number for number, token in enumerate(pruned.token_bytes) if token}
    by_ranks = tiktoken.Encoding("pruned", pat_str=pruned.pattern, mergeable_ranks=ranks, special_tokens={})
    for document in documents:
        ids = pruned.encode(document.text)
        assert theirs.encode(document.text).ids == ids == by_ranks.encode(document.text)


@pytest.mark.parametrize("by", ["end", "leaves"])
def test_points_of_the_curve_are_what_the_saved_tokenizers_encode(small_tokenizer, counts, chosen, tmp_path, by):
    texts = [document.text for document in chosen]
    num_bytes = sum(len(text.encode()) for text in texts)
    sizes = [391, 380, 341, 300, 267]
    points = pruning_curve(small_tokenizer, counts, sizes[::-1], by=by)
    assert [point.vocab_size for point in points] == sizes
    for point in points:
        prune(small_tokenizer, point.vocab_size, by=by, counts=counts).save(tmp_path / "pruned")
        ids, _ = Tokenizer.load(tmp_path / "pruned").encode_batch(texts)
        assert point.num_tokens == len(ids) and point.compression_rate == num_bytes / len(ids)


def test_a_curve_can_be_measured_on_other_documents_than_chose_the_leaves(small_tokenizer, counts, documents):
    others = count_words(documents[2:4], small_tokenizer.pattern)
    (point,) = pruning_curve(small_tokenizer, counts, [300], by="leaves", measured_on=others)
    ids, _ = prune(small_tokenizer, 300, by="leaves", counts=counts).encode_batch([d.text for d in documents[2:4]])
    assert point.num_tokens == len(ids)


def test_sizes_are_spread_from_the_smallest_to_the_whole(small_tokenizer):
    assert spread_sizes(small_tokenizer, 381, 3) == [381, 386, 391]
    assert spread_sizes(small_tokenizer, 390, 17) == [390, 391]


@pytest.mark.parametrize("size", [266, 392, -1])
def test_sizes_out_of_range_are_refused(small_tokenizer, counts, size):
    with pytest.raises(TokenizerError, match=f"vocab_size must be from 267 .* to 391, .*got {size}"):
        prune(small_tokenizer, size)
    with pytest.raises(TokenizerError, match="vocab_size must be from 267"):
        pruning_curve(small_tokenizer, counts, [300, size])


def test_leaves_without_documents_and_curves_without_text_are_refused(small_tokenizer):
    with pytest.raises(TokenizerError, match="documents must be given to prune by leaves"):
        prune(small_tokenizer, 300, by="leaves")
    nothing = count_words([("", "r", "x")], "gpt4")
    with pytest.raises(TokenizerError, match="must hold some text"):
        prune(small_tokenizer, 300, by="leaves", counts=nothing)
    with pytest.raises(TokenizerError, match="must hold some text"):
        pruning_curve(small_tokenizer, nothing, [300])


@pytest.fixture
def folder(small_tokenizer, chosen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_tokenizer.save("tokenizer")
    rows = [{"text": d.text, "repository": d.repository, "language": d.language} for d in chosen]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_command_writes_what_the_function_makes_and_a_curve(folder, capsys, small_tokenizer, counts):
    arguments = ["prune", "tokenizer", "--output", "out", "--vocab-size", "300", "--by", "leaves", "--on", "a.jsonl"]
    assert main([*arguments, "--curve", "curve.json", "--curve-sizes", "320,300"]) == 0
    made, expected = Tokenizer.load("out"), prune(small_tokenizer, 300, by="leaves", counts=counts)
    output = capsys.readouterr().out
    assert made.fingerprint == expected.fingerprint and made.provenance == expected.provenance | {
        "original": json.loads(json.dumps(expected.provenance["original"]))
    }
    assert f"wrote out: 300 of 391 tokens, {made.fingerprint}" in output
    curves = json.loads((folder / "curve.json").read_text())["curves"]
    for by in ("end", "leaves"):
        assert curves[by] == [
            {"vocab_size": point.vocab_size, "tokens": point.num_tokens, "compression_rate": point.compression_rate}
            for point in pruning_curve(small_tokenizer, counts, [391, 320, 300], by=by)
        ]
        assert f"{curves[by][2]['compression_rate']:.4f}" in output


def test_the_curve_is_written_as_a_page_and_a_replaced_tokenizer_mentioned(folder, capsys):
    arguments = ["prune", "tokenizer", "--output", "out", "--vocab-size", "300", "--on", "a.jsonl"]
    assert main([*arguments, "--curve", "curve.html"]) == 0
    assert "that was there" not in capsys.readouterr().out
    page = (folder / "curve.html").read_text()
    assert main(arguments) == 0
    assert capsys.readouterr().out.endswith(", in place of the tokenizer that was there\n")
    assert "<svg" in page and "Pruning tokenizer" in page and ">391</td>" in page


BAD = {
    "no size": (["--output", "o"], "--vocab-size must be given"),
    "too small": (["--output", "o", "--vocab-size", "9"], "--vocab-size must be from 267"),
    "leaves of nothing": (["--output", "o", "--vocab-size", "300", "--by", "leaves"], "--on must name documents"),
    "a curve of nothing": (["--output", "o", "--vocab-size", "300", "--curve", "a.html"], "--on must name documents"),
    "a curve as text": (
        ["--output", "o", "--vocab-size", "300", "--on", "a.jsonl", "--curve", "a.txt"],
        "--curve must be a file ending in .html or .json, got a.txt",
    ),
    "a curve nowhere": (
        ["--output", "o", "--vocab-size", "300", "--on", "a.jsonl", "--curve", "no/a.html"],
        "--curve must be writable, got no such folder: no/a.html",
    ),
    "a curve in the new tokenizer": (
        ["--output", "new", "--vocab-size", "300", "--on", "a.jsonl", "--curve", "new/curve.html"],
        "--curve must not lie in the folder of --output",
    ),
    "a curve over a tokenizer": (
        ["--output", "o", "--vocab-size", "300", "--on", "a.jsonl", "--curve", "tokenizer/tokenizer.json"],
        "--curve must not be part of a tokenizer",
    ),
    "sizes of no curve": (["--output", "o", "--vocab-size", "300", "--curve-sizes", "300"], "--curve must name a file"),
    "documents of no curve": (["--output", "o", "--vocab-size", "300", "--curve-on", "a.jsonl"], "--curve must name a"),
    "no documents of a curve": (
        ["--output", "o", "--vocab-size", "300", "--on", "a.jsonl", "--curve", "a.html", "--curve-on", "b.jsonl"],
        "--curve-on must be files, folders, globs",
    ),
    "an unknown way": (["--output", "o", "--vocab-size", "300", "--by", "root"], "--by must be one of end, leaves"),
    "output in use": (["--output", ".", "--vocab-size", "300"], "--output must be a new folder"),
    "empty documents": (
        ["--output", "o", "--vocab-size", "300", "--by", "leaves", "--on", "empty"],
        "documents must hold some text to measure, got none",
    ),
    "no documents": (
        ["--output", "o", "--vocab-size", "300", "--on", "b.jsonl"],
        "error: --on must be files, folders,",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_code_2_and_writes_nothing(folder, capsys, arguments, message):
    (folder / "empty").touch()
    (folder / "new").mkdir()
    before = sorted(folder.rglob("*"))
    try:
        code = main(["prune", "tokenizer", *arguments])
    except SystemExit as exit:
        code = exit.code
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("read documents")]
    assert code == 2 and len(lines) == 1 and lines[0].startswith("error: ") and message in lines[0]
    assert sorted(folder.rglob("*")) == before
