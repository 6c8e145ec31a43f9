"""Tie rules against those whose rules they are."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer.counting.counts import count_words
from tokenizer.merging.ties import byte_alphabet
from tokenizer.merging.trainer import merge_words
from tokenizer.splitting.patterns import PATTERNS

# Bytes whose order differs between the rules: shown and hidden ones, of one and two bytes.
TEXTS = st.lists(st.text("ab!  \n\x00éÿ~\u0101", max_size=20), max_size=5)


def our_merges(texts, num_merges, ties):
    counts = count_words([(text, "r", "l") for text in texts], "gpt4")
    return merge_words(counts, num_merges=num_merges, priority="F", ties=ties).pairs.tolist()


def notebook_merges(texts, num_merges):
    """The notebook's loop: count the pairs of all chunks in order, merge `max(stats, key=stats.get)`, again."""
    chunks = [list(part.encode()) for text in texts for part in regex.findall(PATTERNS["gpt4"], text)]
    merges = []
    for token in range(256, 256 + num_merges):
        stats = {}
        for chunk in chunks:
            for pair in pairwise(chunk):
                stats[pair] = stats.get(pair, 0) + 1
        if not stats:
            break
        best = max(stats, key=stats.__getitem__)
        merges.append(list(best))
        for number, chunk in enumerate(chunks):
            merged = []
            for value in chunk:
                if merged and (merged[-1], value) == best:
                    merged[-1] = token
                else:
                    merged.append(value)
            chunks[number] = merged
    return merges


def peer_merges(texts, num_merges):
    """The merges of `tokenizers` as pairs of ids, bytes being their values."""
    peer = pytest.importorskip("tokenizers")
    model = peer.Tokenizer(peer.models.BPE())
    split = peer.pre_tokenizers.Split(peer.Regex(PATTERNS["llama3"]), "isolated")
    byte_level = peer.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    model.pre_tokenizer = peer.pre_tokenizers.Sequence([split, byte_level])
    trainer = peer.trainers.BpeTrainer(
        vocab_size=256 + num_merges, initial_alphabet=byte_level.alphabet(), show_progress=False
    )
    model.train_from_iterator(texts, trainer)
    ids = {letter: byte for byte, letter in enumerate(byte_alphabet())}
    merges = []
    vocabulary = sorted(model.get_vocab().items(), key=lambda item: item[1])
    names = {name: 256 + number for number, (name, _) in enumerate(vocabulary[256:])}
    for left, right in json.loads(model.to_str())["model"]["merges"]:
        merges.append([ids.get(left, names.get(left)), ids.get(right, names.get(right))])
    return merges


@settings(deadline=None)
@given(TEXTS, st.integers(1, 40))
def test_first_makes_the_merges_of_the_notebook(texts, num_merges):
    assert our_merges(texts, num_merges, "first") == notebook_merges(texts, num_merges)


def test_first_makes_the_merges_of_the_notebook_on_code():
    texts = [path.read_text()[:4000] for path in sorted(Path(str(regex.__file__)).parent.glob("*.py"))]
    assert our_merges(texts, 250, "first") == notebook_merges(texts, 250)


@pytest.mark.peers
@settings(max_examples=60, deadline=None)
@given(TEXTS, st.integers(1, 40))
def test_hf_makes_the_merges_of_tokenizers(texts, num_merges):
    assert our_merges(texts, num_merges, "hf") == peer_merges(texts, num_merges)


@pytest.mark.peers
def test_hf_makes_the_merges_of_tokenizers_on_code():
    texts = [path.read_text() for path in sorted(Path(str(np.__file__)).parent.glob("lib/*.py"))]
    assert our_merges(texts, 3000, "hf") == peer_merges(texts, 3000)


def test_only_first_depends_on_the_order_of_documents():
    texts = ["cd", "ab"]
    assert our_merges(texts, 1, "first") == [[ord("c"), ord("d")]]
    assert our_merges(texts, 1, "ids") == our_merges(texts[::-1], 1, "hf") == [[ord("a"), ord("b")]]
