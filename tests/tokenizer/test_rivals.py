import numpy as np
import pytest

from benchmarks.rivals.huggingface import train_unigram, train_wordpiece
from benchmarks.rivals.words import encode_by_words, spell_words
from tokenizer import Document
from tokenizer.measures import evaluate
from tokenizer.merging.ties import byte_alphabet
from tokenizer.splitting.documents import split_documents

TEXTS = ["def f(x):\n    return '###' + x  # naïve 東京 ######", "", "1234 the\r\n\n  quick"]


@pytest.mark.peers
@pytest.mark.parametrize("train_rival", [train_unigram, train_wordpiece])
def test_tokens_of_rivals_spell_the_text(documents, train_rival):
    documents = [*documents, *(Document(text, "", "", "") for text in TEXTS)]
    texts = [document.text for document in documents]
    rival = train_rival(documents, 700)
    ids, offsets = rival.encode_batch(texts)
    for number, text in enumerate(texts):
        row = ids[offsets[number] : offsets[number + 1]].tolist()
        assert b"".join(rival.token_bytes[token] for token in row) == text.encode()
    (measures,) = evaluate({"rival": rival}, documents).tokenizers
    assert measures.lost_bytes == 0 and measures.vocab_size <= 700
    assert measures.num_tokens == len(ids)


def test_words_are_spelled_byte_by_byte():
    words = split_documents(TEXTS, "gpt4")
    spelled = spell_words(words.data, words.starts)
    letters = byte_alphabet()
    assert "".join(spelled) == "".join(letters[byte] for text in TEXTS for byte in text.encode())
    assert "Ġreturn" in spelled and "):Ċ" in spelled


def test_encoding_by_words_encodes_each_word_once_and_keeps_texts_apart():
    asked = []

    def encode_word(word):
        asked.append(word)
        return [len(word), 7]

    known = {}
    ids, offsets = encode_by_words(["ab ab", "", "ab cde ab"], "gpt4", encode_word, known)
    assert sorted(asked) == sorted(["ab", "Ġab", "Ġcde"]) and set(known) == set(asked)
    assert [row.tolist() for row in np.split(ids, offsets[1:-1])] == [[2, 7, 3, 7], [], [2, 7, 4, 7, 3, 7]]
    encode_by_words(["cde ab"], "gpt4", encode_word, known)
    assert len(asked) == 4
