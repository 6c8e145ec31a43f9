import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer import StreamingDecoder, Tokenizer, TokenizerError


@settings(deadline=None)
@given(st.binary(max_size=30), st.integers(1, 4))
def test_streamed_pieces_join_to_the_decoded_text(data, size):
    tokenizer = Tokenizer(np.zeros((0, 2)), pattern="none")
    decoder = StreamingDecoder(tokenizer)
    pieces = [decoder.feed(list(data[at : at + size])) for at in range(0, len(data), size)]
    assert "".join(pieces) + decoder.finish() == tokenizer.decode(list(data))


def test_no_piece_shows_half_a_character(small_tokenizer, documents):
    text = "".join(document.text for document in documents) + "𝒳"
    decoder = StreamingDecoder(small_tokenizer)
    shown = ""
    for number in small_tokenizer.encode(text):
        shown += decoder.feed([number])
        assert text.startswith(shown)
    assert shown == text and decoder.finish() == ""


def test_an_unfinished_character_is_replaced_at_the_end_and_the_decoder_starts_anew(small_tokenizer):
    decoder = StreamingDecoder(small_tokenizer)
    assert decoder.feed(list("é".encode()[:1])) == "" and decoder.finish() == "\ufffd"
    assert decoder.feed([97]) == "a" and decoder.finish() == ""
    with pytest.raises(TokenizerError, match="token ids must be"):
        decoder.feed([10**6])


@pytest.mark.peers
def test_spans_are_those_of_tokenizers(small_tokenizer, documents, tmp_path):
    peer = pytest.importorskip("tokenizers")
    small_tokenizer.save(tmp_path / "tokenizer")
    model = peer.Tokenizer.from_file(str(tmp_path / "tokenizer" / "tokenizer.json"))
    source = random.Random(4)
    texts = ["".join(source.choices("ab \n'sé東🎉\u0301", k=source.randrange(30))) for _ in range(300)]
    for text in [*texts, *(document.text for document in documents)]:
        ids, spans = small_tokenizer.encode_with_spans(text)
        encoding = model.encode(text)
        assert ids.tolist() == encoding.ids
        assert [tuple(span) for span in spans.tolist()] == encoding.offsets


def test_spans_cover_the_text_in_order(small_tokenizer):
    text = "naïve 東京 it's"
    ids, spans = small_tokenizer.encode_with_spans(text)
    assert spans.dtype == np.int64 and spans.shape == (len(ids), 2)
    assert spans[0, 0] == 0 and spans[-1, 1] == len(text) and (np.diff(spans, axis=0) >= 0).all()
    assert small_tokenizer.encode_with_spans("")[1].shape == (0, 2)
