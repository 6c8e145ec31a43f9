"""Tokens of a list taken out of a vocabulary."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer import Tokenizer, TokenizerError, train
from tokenizer.commands import main
from tokenizer.measures.pruning import prune, remove_tokens
from tokenizer.measures.removal import plan_removal, read_removal

TEXT = "return returning returned alpha alphabet 12 == \n" * 3


@pytest.fixture(scope="module")
def original():
    return train([(TEXT, "r", "x"), (TEXT[::-1], "s", "y")], vocab_size=305, priority="F")


def remove_naively(tokenizer: Tokenizer, ids: set[int]) -> list[bytes]:
    """Again and again take out a listed merge of which no merge is made; the tokens that remain, in order."""
    merges = {256 + number: tuple(pair) for number, pair in enumerate(tokenizer.pairs.tolist())}
    listed = {np.argsort(tokenizer.ids)[number] for number in ids}
    while going := [m for m in merges if m in listed and not any(m in pair for pair in merges.values())]:
        del merges[going[0]]
    return [tokenizer.token_bytes[tokenizer.ids[merge]] for merge in merges]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_what_goes_is_what_can_go_leaf_by_leaf_and_the_rest_encodes_as_whole_bpe(data):
    original = train([(TEXT, "r", "x")], vocab_size=300, special_tokens=("<eod>",), num_reserved=0, priority="F")
    if data.draw(st.booleans()):
        shuffled = np.random.default_rng(1).permutation(original.vocab_size)
        original = Tokenizer(original.pairs, ["<eod>"], ids=shuffled)
    ids = data.draw(st.sets(st.integers(0, original.vocab_size - 1)))
    removal = plan_removal(original, ids)
    pruned = remove_tokens(original, removal)
    merged = pruned.token_bytes[256 : 256 + len(pruned.pairs)]
    assert merged == remove_naively(original, ids)
    merges = {number for number in ids if len(original.token_bytes[number]) > 1}
    assert removal.num_fixed == len(ids) - len(merges)
    assert removal.num_parts == len({original.token_bytes[number] for number in merges} & set(merged))
    assert pruned.decode(pruned.encode(TEXT)) == TEXT
    # A token that stays is still what merging makes of its own bytes, unless merging makes more of them first.
    for token in merged:
        kept, before = pruned.encode(token.decode()), original.encode(token.decode())
        assert [pruned.token_bytes[number] for number in kept] == [original.token_bytes[number] for number in before]


def test_removing_the_last_merges_is_pruning_from_the_end(original):
    last = range(290, 256 + len(original.pairs))
    removed = remove_tokens(original, plan_removal(original, last))
    assert removed.fingerprint == prune(original, removed.vocab_size).fingerprint
    assert removed.merges is not None and len(removed.merges.frequency) == 290 - 256


@pytest.fixture
def folder(original, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    original.save("tok")
    return tmp_path


def test_the_command_takes_a_list_and_says_what_stays(folder, original, capsys):
    leaf = 256 + int(np.flatnonzero(~np.isin(256 + np.arange(len(original.pairs)), original.pairs))[0])
    part = int(original.pairs[original.pairs >= 256][0])
    content = {"fingerprint": original.fingerprint, "ids": [leaf, part, 65], "tokens": ["for readers"]}
    (folder / "list.json").write_text(json.dumps(content))
    assert main(["prune", "tok", "--output", "small", "--remove", "list.json"]) == 0
    output = capsys.readouterr()
    assert f"wrote small: {original.vocab_size - 1} of {original.vocab_size} tokens" in output.out
    assert "kept 1 listed token: parts of tokens that stay" in output.err
    assert "kept 1 listed token: bytes or special tokens" in output.err
    pruned = Tokenizer.load("small")
    assert set(original.token_bytes) - set(pruned.token_bytes) == {original.token_bytes[leaf]}
    assert pruned.provenance["pruned"] == {
        "by": "list",
        "listed_parts_kept": 1,
        "listed_others_kept": 1,
        "from": {"fingerprint": original.fingerprint, "vocab_size": original.vocab_size},
    }


BAD = {
    "neither": ([], None, "--vocab-size must be given, got nothing"),
    "both": (["--remove", "list.json", "--vocab-size", "300"], None, "--vocab-size must be left out with --remove"),
    "documents": (["--remove", "list.json", "--on", "a"], None, "--on must be left out with --remove"),
    "leaves": (["--remove", "list.json", "--by", "leaves"], None, "--by must be left out with --remove"),
    "no file": (["--remove", "none.json"], None, "remove must be a JSON file, got No such file"),
    "no ids": (["--remove", "list.json"], {"ids": ["a"]}, 'remove must have "ids", a list of whole numbers'),
    "another's": (["--remove", "list.json"], {"ids": [300], "fingerprint": "f"}, "remove must list tokens of the"),
    "no token": (["--remove", "list.json"], {"ids": [330]}, "ids to remove must be at least 0 and below 305, got 330"),
}


@pytest.mark.parametrize(("arguments", "content", "message"), BAD.values(), ids=BAD)
def test_bad_lists_are_one_line_and_code_2_and_write_nothing(folder, original, capsys, arguments, content, message):
    (folder / "list.json").write_text(json.dumps({"fingerprint": original.fingerprint} | (content or {"ids": []})))
    before = sorted(folder.rglob("*"))
    assert main(["prune", "tok", "--output", "small", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and message in lines[0]
    assert sorted(folder.rglob("*")) == before


def test_ids_of_another_tokenizer_are_refused(original, tmp_path):
    (tmp_path / "list.json").write_text(json.dumps({"fingerprint": "other", "ids": [300]}))
    with pytest.raises(TokenizerError, match=f"{original.fingerprint}, got those of other"):
        read_removal(tmp_path / "list.json", original)
