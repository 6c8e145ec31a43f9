import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer import Document, Tokenizer, TokenizerError, train
from tokenizer.measures import evaluate, usage
from tokenizer.measures.inequality import gini
from tokenizer.measures.names import split_name
from tokenizer.measures.table import make_tables, to_markdown
from tokenizer.ragged import offsets_of


class ByHand:
    """Tokens ab, 100, getHTTPStatus, a special one, and single letters: the longest that fits, from left to right."""

    def __init__(self):
        self.token_bytes = [b"", *(letter.encode() for letter in "abc10"), b"ab", b"100", b"getHTTPStatus"]

    def encode_batch(self, texts, /):
        rows = [self.encode(text.encode()) for text in texts]
        return np.array([number for row in rows for number in row], np.int64), offsets_of(np.array([*map(len, rows)]))

    def encode(self, data):
        row = []
        while data:
            fitting = [number for number, token in enumerate(self.token_bytes) if token and data.startswith(token)]
            best = max(fitting, key=lambda number: len(self.token_bytes[number]), default=0)
            row.append(best)
            data = data[max(1, len(self.token_bytes[best])) :]
        return row


def test_measures_of_a_vocabulary_made_by_hand():
    documents = [("abab", "r", "x"), ("c100", "r", "y"), ("", "r", "y"), ("ab1", "s", "")]
    evaluation = evaluate({"hand": ByHand()}, documents)
    (hand,) = evaluation.tokenizers
    assert (evaluation.num_documents, evaluation.num_bytes, evaluation.differences) == (4, 11, ((0,),))
    assert (hand.vocab_size, hand.num_learned, hand.num_tokens) == (9, 8, 6)
    assert hand.compression_rate == 11 / 6
    assert hand.coverage == 4 and hand.coverage_share == 0.5  # ab, c, 100, 1
    assert hand.mean_token_length == (5 + 2 + 3 + 13) / 8
    assert hand.three_digit_numbers == 1
    assert hand.gini == gini([4 / 2, 4 / 2]) == 0
    assert hand.name_parts == (3, 4, 0, 1) and hand.longest_name == b"getHTTPStatus"
    assert hand.token_lengths == (0, 5, 1, 1, *[0] * 9, 1)
    assert hand.lost_bytes == 0 and hand.training_steps is None and hand.fingerprint is None
    assert hand.token_counts.tolist() == [0, 0, 0, 1, 1, 0, 3, 1, 0]
    rows = [(row.language, row.num_documents, row.num_bytes, row.num_tokens, row.coverage) for row in hand.languages]
    assert rows == [("", 1, 3, 2, 2), ("x", 1, 4, 2, 1), ("y", 2, 4, 2, 2)]


def test_bytes_without_a_token_are_told_and_special_tokens_cover_nothing():
    evaluation = evaluate({"hand": ByHand()}, [("ab?é", "", "")])
    (hand,) = evaluation.tokenizers
    assert (hand.num_tokens, hand.coverage, hand.languages[0].coverage, hand.lost_bytes) == (4, 1, 1, 3)
    assert make_tables(evaluation)[0].caption.endswith("; hand has no tokens for 3 bytes")


def count_naively(tokenizer, documents):
    """Ids by language, one document and one id at a time."""
    ids = {}
    for text, _, language, *_ in documents:
        ids.setdefault(language, []).extend(tokenizer.encode(text))
    return ids


def test_measures_are_those_of_a_naive_count(documents, small_tokenizer):
    other = train(documents, vocab_size=300, priority="F*logR", pattern="none")
    evaluation = evaluate({"a": small_tokenizer, "b": other}, documents)
    for measures, tokenizer in zip(evaluation.tokenizers, (small_tokenizer, other), strict=True):
        ids = count_naively(tokenizer, documents)
        flat = [number for row in ids.values() for number in row]
        size = sum(len(document.text.encode()) for document in documents)
        assert measures.compression_rate == size / len(flat)
        assert sum(len(tokenizer.decode_bytes([number])) for number in flat) == size == evaluation.num_bytes
        assert measures.coverage == len(set(flat))
        counted = Counter(flat)
        assert measures.token_counts.tolist() == [counted[number] for number in range(tokenizer.vocab_size)]
        learned = [tokenizer.decode_bytes([n]) for n in range(tokenizer.vocab_size - len(tokenizer.special_tokens))]
        assert measures.mean_token_length == pytest.approx(sum(map(len, learned)) / len(learned))
        parts = Counter(len(split_name(token.decode(errors="replace"))) for token in learned)
        assert measures.name_parts == tuple(parts[number] for number in range(max(parts) + 1))
        assert len(split_name(measures.longest_name.decode())) == max(parts)
        assert measures.training_steps == tokenizer.provenance["steps"]
        assert measures.fingerprint == tokenizer.fingerprint
        rates = []
        for row in measures.languages:
            sizes = [len(document.text.encode()) for document in documents if document.language == row.language]
            assert (row.num_documents, row.num_bytes) == (len(sizes), sum(sizes))
            assert (row.num_tokens, row.coverage) == (len(ids[row.language]), len(set(ids[row.language])))
            rates.append(sum(sizes) / len(ids[row.language]))
        assert measures.gini == pytest.approx(gini(rates))
    a, b = (set(tokenizer.token_bytes) for tokenizer in (small_tokenizer, other))
    assert evaluation.differences == ((0, len(a - b)), (len(b - a), 0)) and len(a - b) > len(b - a) > 0


@pytest.mark.parametrize("block", [1, 100, 10**9])
def test_neither_blocks_nor_order_nor_company_change_anything(documents, small_tokenizer, monkeypatch, block):
    expected = evaluate({"a": small_tokenizer}, documents)
    monkeypatch.setattr(usage, "BLOCK_CHARACTERS", block)
    mixed = evaluate({"b": ByHand(), "a": small_tokenizer}, iter(documents[::-1]))
    assert mixed.tokenizers[1] == expected.tokenizers[0]
    assert mixed.tokenizers[1].token_counts.tolist() == expected.tokenizers[0].token_counts.tolist()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=9), st.just(""), st.sampled_from(["", "x", "y", "z"])), min_size=1))
def test_languages_add_up_to_the_whole(small_tokenizer, documents):
    if not any(text for text, _, _ in documents):
        return
    evaluation = evaluate({"a": small_tokenizer}, documents)
    (measures,) = evaluation.tokenizers
    assert [row.language for row in measures.languages] == sorted({language for _, _, language in documents})
    for name, whole in (
        ("num_documents", len(documents)),
        ("num_bytes", evaluation.num_bytes),
        ("num_tokens", measures.num_tokens),
    ):
        assert sum(getattr(row, name) for row in measures.languages) == whole
    assert measures.token_counts.sum() == measures.num_tokens
    assert max(row.coverage for row in measures.languages) <= measures.coverage


def test_text_is_read_once_and_encoded_once_by_each(documents, monkeypatch):
    class Counting(ByHand):
        def __init__(self):
            super().__init__()
            self.texts = []

        def encode_batch(self, texts, /):
            self.texts += texts
            return super().encode_batch(texts)

    monkeypatch.setattr(usage, "BLOCK_CHARACTERS", 200)
    subjects, reports = {"a": Counting(), "b": Counting()}, []
    evaluate(subjects, iter(documents), progress=lambda *report: reports.append(report))
    texts = [document.text for document in documents]
    assert subjects["a"].texts == subjects["b"].texts == texts
    assert len(reports) > 3 and reports[-1] == ("encode", sum(len(text.encode()) for text in texts), None)


def test_json_keeps_what_depends_on_the_machine_apart(documents, small_tokenizer):
    first, second = (evaluate({"a": small_tokenizer}, documents).to_json() for _ in range(2))
    for content in (first, second):
        assert set(content["tokenizers"][0].pop("depends_on_machine")) == {
            "encoding_cpu_seconds",
            "megabytes_per_cpu_second",
        }
    assert json.dumps(first) == json.dumps(second)
    (measures,) = first["tokenizers"]
    assert measures["compression_rate"] == first["bytes"] / measures["tokens"]
    assert measures["languages"]["language0"]["documents"] == 6


def test_no_text_and_no_unicode_are_one_line():
    with pytest.raises(TokenizerError, match="documents must hold some text to measure, got none"):
        evaluate({"a": ByHand()}, [("", "r", "x")])
    with pytest.raises(TokenizerError, match="documents must hold some text to measure, got none"):
        evaluate({"a": ByHand()}, [])
    with pytest.raises(TokenizerError, match=r"got the lone surrogate U\+D800 at character 1 of document 1"):
        evaluate({"a": ByHand()}, [("ab", "r", "x"), ("a\ud800", "r", "x")])


def test_imported_tokenizers_have_no_steps(tmp_path, small_tokenizer, documents):
    small_tokenizer.save(tmp_path / "a")
    imported = Tokenizer.from_huggingface(tmp_path / "a" / "tokenizer.json")
    a, b = evaluate({"a": small_tokenizer, "b": imported}, documents).tokenizers
    assert b.training_steps is None and a.training_steps is not None
    assert (b.compression_rate, b.coverage, b.token_lengths) == (a.compression_rate, a.coverage, a.token_lengths)


def test_tables_show_the_numbers_and_line_up():
    evaluation = evaluate({"hand": ByHand(), "again|": ByHand()}, [("ab100" * 300, "r", "x"), ("c", "r", "")])
    tables = make_tables(evaluation)
    measures, *_, differences = map(to_markdown, tables)
    assert measures.startswith("Measures on 1,501 bytes of text in 2 documents\n\n| tokenizer | tokens |")
    (row,) = (line for line in measures.splitlines() if line.startswith("| hand "))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:9] == ["hand", "9", f"{1501 / 601:.4f}", "3", "37.5%", "2.875", "1", "-", "-"]
    assert differences.splitlines()[-1].split() == ["|", "again\\|", "|", "0", "|", "0", "|"]
    for table in map(to_markdown, tables):
        lines = [line for line in table.splitlines() if line.startswith("|")]
        assert len({len(line) for line in lines}) == 1


@pytest.mark.peers
def test_a_unigram_model_is_measured_through_an_adapter(documents):
    tokenizers = pytest.importorskip("tokenizers")
    peer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    peer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    peer.train_from_iterator([document.text for document in documents], trainer)
    decoder = tokenizers.decoders.ByteLevel()

    class Adapter:
        def __init__(self):
            self.token_bytes = [b"x" * len(peer.id_to_token(number)) for number in range(peer.get_vocab_size())]

        def encode_batch(self, texts, /):
            rows = [encoding.ids for encoding in peer.encode_batch(texts)]
            return np.array([n for row in rows for n in row], np.int64), offsets_of(np.array([*map(len, rows)]))

    (measures,) = evaluate({"unigram": Adapter()}, documents).tokenizers
    ids = [peer.encode(document.text).ids for document in documents]
    texts = [decoder.decode([peer.id_to_token(number) for number in row]) for row in ids]
    assert texts == [document.text for document in documents]
    assert measures.lost_bytes == 0
    assert measures.num_tokens == sum(map(len, ids))
    assert measures.coverage == len({number for row in ids for number in row})


def test_documents_may_be_of_any_kind_of_tuple(small_tokenizer):
    plain = evaluate({"a": small_tokenizer}, [("text", "r", "x")])
    assert plain == evaluate({"a": small_tokenizer}, [Document("text", "s", "x", "path")])
