import pickle
import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer import Tokenizer, TokenizerError, train
from tokenizer.encoding import encoder as encoding


@given(st.lists(st.text(max_size=40), max_size=6))
@settings(deadline=None)
def test_decoding_gives_back_every_text(small_tokenizer, texts):
    ids, offsets = small_tokenizer.encode_batch(texts)
    assert ids.dtype == np.uint16 and offsets.dtype == np.int64 and len(offsets) == len(texts) + 1
    for text, start, end in zip(texts, offsets, offsets[1:], strict=False):
        assert small_tokenizer.decode(ids[start:end]) == text
        assert small_tokenizer.encode(text) == ids[start:end].tolist()


def test_a_batch_may_be_empty(small_tokenizer):
    ids, offsets = small_tokenizer.encode_batch([])
    assert ids.size == 0 and offsets.tolist() == [0]
    assert small_tokenizer.encode("") == [] and small_tokenizer.decode([]) == ""


@pytest.mark.parametrize("letter", [" ", "a", "=", "\n"])
def test_a_million_equal_letters_are_no_trouble(small_tokenizer, letter):
    text = letter * 1_000_000
    ids = small_tokenizer.encode(text)
    assert small_tokenizer.decode(ids) == text and max(ids) < 380


def test_token_lengths_count_the_bytes_of_a_text(small_tokenizer, documents):
    text = "".join(document.text for document in documents)
    ids = small_tokenizer.encode(text)
    assert small_tokenizer.token_lengths[ids].sum() == len(text.encode()) > len(ids)
    assert [small_tokenizer.token_lengths[n] for n in small_tokenizer.special_tokens.values()] == [0] * 11


def test_special_tokens_have_the_last_ids_and_the_reserved_ones_come_last(small_tokenizer):
    names = list(small_tokenizer.special_tokens)
    assert names[:3] == ["<eot>", "<eod>", "<eos>"] and names[-1] == "<|unused_token_2|>"
    assert list(small_tokenizer.special_tokens.values()) == list(range(380, 391))
    assert small_tokenizer.vocab_size == 391


def test_text_that_spells_a_special_token_is_ordinary_unless_allowed(small_tokenizer):
    text = "a<eod><eod>b<eos>"
    eod = small_tokenizer.special_tokens["<eod>"]
    assert max(small_tokenizer.encode(text)) < 380
    allowed = small_tokenizer.encode(text, allowed_special={"<eod>"})
    assert allowed.count(eod) == 2 and small_tokenizer.special_tokens["<eos>"] not in allowed
    assert small_tokenizer.decode(allowed) == text
    with pytest.raises(TokenizerError, match=r"allowed_special must be among .* got '<end>'"):
        small_tokenizer.encode(text, allowed_special=["<end>"])


def test_of_two_special_tokens_that_begin_alike_the_longer_is_recognised():
    pair = Tokenizer(np.zeros((0, 2)), ["<e>", "<e><f>"], "none")
    assert pair.encode("<e><f><e>", allowed_special=["<e>", "<e><f>"]) == [257, 256]


def test_a_lone_surrogate_is_refused_in_one_line(small_tokenizer):
    with pytest.raises(TokenizerError, match=r"lone surrogate U\+D800 at character 1") as caught:
        small_tokenizer.encode("a\ud800")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ids", [[391], [-1], [3, 1 << 40]])
def test_unknown_ids_are_refused(small_tokenizer, ids):
    with pytest.raises(TokenizerError, match="token ids must be at least 0 and below 391"):
        small_tokenizer.decode(ids)


def test_bytes_that_are_no_text_show_as_replacement(small_tokenizer):
    assert small_tokenizer.decode([0xFF, 0x41]) == "\ufffdA"
    assert small_tokenizer.decode_bytes([0xFF, 0x41]) == b"\xffA"


def test_forgetting_words_changes_no_ids(small_tokenizer, documents, monkeypatch):
    texts = [document.text for document in documents]
    expected = small_tokenizer.encode_batch(texts)
    monkeypatch.setattr(encoding, "MEMORY_BYTES", 100)
    monkeypatch.setattr(encoding, "BLOCK_CHARACTERS", 50)
    monkeypatch.setattr(encoding, "GROUP_CHARACTERS", 200)
    forgetful = pickle.loads(pickle.dumps(small_tokenizer))
    for _ in range(2):
        for ours, theirs in zip(forgetful.encode_batch(texts), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("threads", [2, 5])
def test_ids_are_the_same_for_any_number_of_threads(small_tokenizer, documents, monkeypatch, threads):
    texts = [document.text for document in documents]
    expected = small_tokenizer.encode_batch(texts)
    monkeypatch.setattr(encoding, "GROUP_CHARACTERS", 400)
    anew = pickle.loads(pickle.dumps(small_tokenizer))
    for _ in range(2):
        for ours, theirs in zip(anew.encode_batch(texts, threads=threads), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(TokenizerError, match="threads must be at least 1, got 0"):
        anew.encode_batch(texts, threads=0)


def test_threads_share_a_tokenizer(documents, small_tokenizer):
    texts = ["".join(random.Random(n).choices("abc def\n", k=2000)) for n in range(40)]
    expected = small_tokenizer.encode_batch(texts)[0]
    shared = pickle.loads(pickle.dumps(small_tokenizer))
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(shared.encode_batch(texts)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(np.array_equal(result, expected) for result in results)


@pytest.mark.parametrize(
    ("pairs", "specials", "message"),
    [
        ([[97, 256]], ["<e>"], "merge of a later token"),
        ([[-1, 97]], ["<e>"], "merge of a later token"),
        ([[97, 97], [97, 256], [256, 97]], ["<e>"], "spell the same bytes"),
        ([[97, 98]], ["ab"], "special_tokens must differ from learned tokens, got 'ab'"),
        ([[97, 98]], ["<e>", "<e>"], "special_tokens must be different"),
    ],
)
def test_impossible_vocabularies_are_refused(pairs, specials, message):
    with pytest.raises(TokenizerError, match=message):
        Tokenizer(np.array(pairs), specials)


def test_the_fingerprint_tells_pattern_merges_and_special_tokens_apart():
    def fingerprint(pairs=((97, 98),), specials=("<e>",), pattern="gpt4"):
        return Tokenizer(np.array(pairs), specials, pattern).fingerprint

    variants = [
        fingerprint(),
        fingerprint(pairs=((97, 99),)),
        fingerprint(specials=("<f>",)),
        fingerprint(specials=("<e>", "<f>")),
        fingerprint(pattern="none"),
    ]
    assert len(set(variants)) == 5
    assert fingerprint() == variants[0]


def test_many_tokens_need_wider_ids():
    pairs = np.stack(np.divmod(np.arange(65_300), 256), axis=1)
    assert Tokenizer(pairs[: 65_536 - 256], []).dtype == np.uint16
    assert Tokenizer(pairs[: 65_536 - 256], ["<e>"]).dtype == np.uint32


def test_the_worked_example_of_training_holds():
    tokens = train([("ab ab", "r", "x")], vocab_size=258, special_tokens=["<eod>"], num_reserved=0)
    assert tokens.encode("abab") == [256, 256]


NO_IDS = {
    "parts": [1.5, 2.5],
    "whole numbers as floats": np.array([97.0]),
    "nothing that is a number": [float("nan")],
    "truths": np.array([True, False]),
    "complex numbers": [1 + 0j],
    "text": ["97"],
    "rows": [[97, 98], [99, 100]],
    "rows of different lengths": [[97], [98, 99]],
    "one number": 97,
    "more than 64 bits": [2**70],
    "records": np.zeros(2, [("a", np.int32)]),
    "nothing": None,
}


@pytest.mark.parametrize("ids", NO_IDS.values(), ids=NO_IDS)
def test_what_is_no_row_of_integers_is_never_read_as_one(small_tokenizer, ids):
    with pytest.raises(TokenizerError, match="ids must be 64-bit integers of one dimension, got ") as caught:
        small_tokenizer.decode(ids)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.uint32, np.uint64, np.int64])
def test_ids_of_any_integer_type_are_decoded(small_tokenizer, dtype):
    assert small_tokenizer.decode(np.array([97, 98], dtype)) == "ab"
    assert small_tokenizer.decode(np.empty(0, dtype)) == small_tokenizer.decode(()) == ""


def test_the_largest_id_of_a_narrow_type_is_decoded():
    pairs = np.stack(np.divmod(np.arange(65_536 - 256), 256), axis=1)
    full = Tokenizer(pairs, [])
    assert full.decode_bytes(np.array([65_535], np.uint16)) == full.token_bytes[65_535]


def test_what_is_no_text_is_refused(small_tokenizer):
    for text in (b"bytes", None, ["a list"]):
        for allowed in ((), ["<eod>"]):
            with pytest.raises(TokenizerError, match="text must be a string, got "):
                small_tokenizer.encode(text, allowed_special=allowed)
    for texts in ("letters", b"bytes", ["a", 1]):
        with pytest.raises(TokenizerError, match="texts must be strings in a sequence, got "):
            small_tokenizer.encode_batch(texts)


def test_a_faulty_text_is_named_by_its_number_in_the_whole_batch(small_tokenizer, monkeypatch):
    monkeypatch.setattr(encoding, "BLOCK_CHARACTERS", 20)
    monkeypatch.setattr(encoding, "GROUP_CHARACTERS", 100)
    monkeypatch.setattr(encoding, "DROPOUT_CHARACTERS", 50)
    texts = ["some words"] * 45 + ["x\ud800"] + ["more"] * 20
    for options in ({}, {"threads": 3}, {"dropout": 0.1}):
        with pytest.raises(TokenizerError, match="at character 1 of document 45;"):
            small_tokenizer.encode_batch(texts, **options)
    with pytest.raises(TokenizerError, match="at character 7 of document 0;"):
        small_tokenizer.encode("a<eod>b\ud800", allowed_special={"<eod>"})


@pytest.mark.parametrize(
    ("texts", "options", "line"),
    [
        ({"a": 1}, {}, "texts must be strings in a sequence"),
        ({"a", "b"}, {}, "texts must be strings in a sequence"),
        (None, {}, "texts must be strings in a sequence, got None"),
        ([None], {}, "texts must be strings in a sequence"),
        (["a"], {"threads": "2"}, "threads must be a whole number, got '2'"),
        (["a"], {"threads": 2.5}, "threads must be a whole number, got 2.5"),
        (["a"], {"seed": None}, "seed must be a whole number, got None"),
        (["a"], {"dropout": "0.1"}, "dropout must be from 0 to 1, got '0.1'"),
    ],
)
def test_arguments_of_other_types_are_refused_in_a_line(small_tokenizer, texts, options, line):
    with pytest.raises(TokenizerError, match=line):
        small_tokenizer.encode_batch(texts, **options)


def test_any_iterable_of_texts_is_encoded(small_tokenizer):
    expected = small_tokenizer.encode_batch(["a b", "c"])
    for texts in (iter(["a b", "c"]), map(str, ["a b", "c"]), ("a b", "c")):
        for ours, theirs in zip(small_tokenizer.encode_batch(texts), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
