"""Vocabularies as GGUF, read back by an independent reader."""

import struct
from typing import Any

import numpy as np
import pytest

from tokenizer import Tokenizer, TokenizerError, train
from tokenizer.commands import main
from tokenizer.interchange.gguf import export_gguf, gguf_fields


def read_gguf(data) -> dict[str, Any]:
    """A reader of what the format's description says, for files without tensors."""
    at = 0

    def take(layout):
        nonlocal at
        values = struct.unpack_from("<" + layout, data, at)
        at += struct.calcsize("<" + layout)
        return values[0]

    def text():
        nonlocal at
        length = take("Q")
        at += length
        return data[at - length : at].decode()

    def value(kind) -> Any:
        if kind == 9:
            of, count = take("I"), take("Q")
            return [value(of) for _ in range(count)]
        return text() if kind == 8 else take({4: "I", 5: "i", 7: "?"}[kind])

    assert take("4s") == b"GGUF" and take("I") == 3 and take("Q") == 0
    fields = {text(): value(take("I")) for _ in range(take("Q"))}
    assert len(data) % 32 == 0 and not data[at:].strip(b"\0")
    return fields


def test_the_file_holds_the_fields_and_those_the_tokenizer(small_tokenizer):
    fields = read_gguf(export_gguf(small_tokenizer))
    assert fields == gguf_fields(small_tokenizer)
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    assert len(tokens) == len(kinds) == 391 and tokens[ord("a")] == "a" and tokens[ord(" ")] == "Ġ"
    assert kinds == [1] * 380 + [3] * 8 + [5] * 3
    specials = small_tokenizer.special_tokens
    assert [tokens[number] for number in specials.values()] == list(specials)
    made = [merge.replace(" ", "") for merge in fields["tokenizer.ggml.merges"]]
    assert made == tokens[256:380]
    assert fields["tokenizer.ggml.eos_token_id"] == fields["tokenizer.ggml.bos_token_id"] == specials["<eod>"]
    assert fields["tokenizer.ggml.padding_token_id"] == specials["<pad>"]
    assert fields["tokenizer.ggml.unknown_token_id"] == specials["<unk>"]
    assert fields["tokenizer.ggml.add_bos_token"] is False
    assert fields["general.architecture"] == "llama" and fields["tokenizer.ggml.model"] == "gpt2"


@pytest.mark.peers
def test_the_reader_of_its_authors_reads_the_same_fields(small_tokenizer, tmp_path):
    gguf = pytest.importorskip("gguf")
    (tmp_path / "vocab.gguf").write_bytes(export_gguf(small_tokenizer))
    fields = gguf.GGUFReader(tmp_path / "vocab.gguf").fields
    ours = gguf_fields(small_tokenizer)
    assert {name: field.contents() for name, field in fields.items() if not name.startswith("GGUF.")} == ours


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("gpt2", "gpt-2"), ("gpt4", "llama-bpe"), ("llama3", "llama-bpe"), ("qwen2", "qwen2"), ("o200k", "gpt-4o")],
)
def test_patterns_get_the_names_that_llama_cpp_knows(pattern, name):
    assert gguf_fields(Tokenizer(np.zeros((0, 2)), [], pattern))["tokenizer.ggml.pre"] == name


REFUSED = {
    "another pattern": (Tokenizer(np.zeros((0, 2)), [], "none"), "pattern must be one that llama.cpp knows.*got ''"),
    "an unmade token": (Tokenizer(np.array([[97, 98], [98, 99], [97, 257]]), []), "got b'abc'.* leave in parts"),
    "a special word": (Tokenizer(np.zeros((0, 2)), ["<e>", "stop"]), "special_tokens must not be .* got 'stop'"),
}


@pytest.mark.parametrize(("tokenizer", "message"), REFUSED.values(), ids=REFUSED)
def test_what_llama_cpp_would_encode_otherwise_is_refused(tokenizer, message):
    with pytest.raises(TokenizerError, match=message):
        export_gguf(tokenizer)


def test_tokens_stand_at_their_ids_when_these_are_not_in_order(documents):
    made = train(documents, vocab_size=300, special_tokens=["<eod>"], num_reserved=0)
    order = np.random.default_rng(0).permutation(300)
    fields = gguf_fields(Tokenizer(made.pairs, ["<eod>"], ids=order))
    assert [fields["tokenizer.ggml.tokens"][number] for number in order] == gguf_fields(made)["tokenizer.ggml.tokens"]
    assert fields["tokenizer.ggml.merges"] == gguf_fields(made)["tokenizer.ggml.merges"]
    assert fields["tokenizer.ggml.eos_token_id"] == order[299]


def test_the_command_writes_the_file(small_tokenizer, tmp_path, capsys):
    small_tokenizer.save(tmp_path / "t")
    arguments = ["export", "--tokenizer", str(tmp_path / "t"), "--output", str(tmp_path / "v.gguf")]
    assert main([*arguments, "--format", "gguf"]) == 0
    assert (tmp_path / "v.gguf").read_bytes() == export_gguf(small_tokenizer)
    assert capsys.readouterr().out == f"wrote {tmp_path / 'v.gguf'}: 391 tokens for llama.cpp\n"
