"""Tokenizers that go to tiktoken and Hugging Face and come from there: the same ids."""

import json
import random
import unicodedata

import numpy as np
import pytest

from tokenizer import Tokenizer, TokenizerError, train
from tokenizer.commands import main
from tokenizer.interchange.huggingface import to_tokenizer_config, to_tokenizer_json
from tokenizer.interchange.tiktoken_ranks import export_tiktoken
from tokenizer.splitting.patterns import PATTERNS

LETTERS = "ab  \n\r\t'sdLlE12=+_/é東🎉\u0301\u00a0\u2028"


@pytest.fixture(scope="module")
def texts(documents):
    source = random.Random(3)
    fuzzed = ["".join(source.choices(LETTERS, k=source.randrange(40))) for _ in range(400)]
    return [*fuzzed, *(document.text for document in documents)]


def same_ids(tokenizer, texts, encode):
    ids, offsets = tokenizer.encode_batch(texts)
    for text, start, end in zip(texts, offsets, offsets[1:], strict=False):
        assert encode(text) == ids[start:end].tolist(), repr(text)
        assert tokenizer.decode(ids[start:end]) == text


def write_ranks(tokenizer, path):
    path.write_bytes(export_tiktoken(tokenizer))
    return path


@pytest.mark.peers
def test_exported_ranks_give_tiktoken_the_same_ids(small_tokenizer, texts, tmp_path):
    peer = pytest.importorskip("tiktoken")
    loading = pytest.importorskip("tiktoken.load")
    ranks = loading.load_tiktoken_bpe(str(write_ranks(small_tokenizer, tmp_path / "ranks.tiktoken")))
    options = {"pat_str": small_tokenizer.pattern, "special_tokens": small_tokenizer.special_tokens}
    encoding = peer.Encoding("ours", mergeable_ranks=ranks, **options)
    same_ids(small_tokenizer, texts, encoding.encode_ordinary)
    assert encoding.n_vocab == small_tokenizer.vocab_size


def test_ranks_come_back_as_the_tokenizer_they_were(small_tokenizer, tmp_path):
    path = write_ranks(small_tokenizer, tmp_path / "ranks.tiktoken")
    back = Tokenizer.from_tiktoken(path, pattern="gpt4", special_tokens=list(small_tokenizer.special_tokens))
    assert back.fingerprint == small_tokenizer.fingerprint


@pytest.mark.peers
@pytest.mark.parametrize("pattern", ["gpt4", "o200k"])
def test_ranks_with_bytes_in_another_order_keep_their_ids(documents, texts, tmp_path, pattern):
    peer = pytest.importorskip("tiktoken")
    ours = train(documents, vocab_size=340, priority="F", pattern=pattern, special_tokens=(), num_reserved=0)
    order = np.random.default_rng(0).permutation(256).astype(np.int32)
    renumbered = Tokenizer(ours.pairs, (), pattern, ids=np.concatenate((order, np.arange(256, 340))))
    path = write_ranks(renumbered, tmp_path / "ranks.tiktoken")
    encoding = peer.Encoding(
        "x",
        pat_str=PATTERNS[pattern],
        special_tokens={},
        mergeable_ranks={token: rank for rank, token in enumerate(renumbered.token_bytes)},
    )
    imported = Tokenizer.from_tiktoken(path, pattern=pattern, special_tokens=["<eod>"])
    same_ids(imported, texts, encoding.encode_ordinary)
    assert imported.special_tokens == {"<eod>": 340}
    imported.save(tmp_path / "saved")
    assert Tokenizer.load(tmp_path / "saved").fingerprint == imported.fingerprint != ours.fingerprint


def peer_model(documents, name):
    """A tokenizer as their authors make them, trained by `tokenizers`: special tokens come first."""
    peer = pytest.importorskip("tokenizers")
    steps, pattern = peer.pre_tokenizers, {"llama3": PATTERNS["llama3"], "qwen2": PATTERNS["qwen2"]}.get(name)
    byte_level = steps.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    before = {"starcoder": [steps.Digits(individual_digits=True)], "gpt2": []}
    splits = before.get(name, [steps.Split(peer.Regex(pattern), "isolated")] if pattern else [])
    model = peer.Tokenizer(peer.models.BPE())
    model.pre_tokenizer = steps.Sequence([*splits, byte_level]) if splits else byte_level
    model.decoder = peer.decoders.ByteLevel()
    special = [] if name == "llama3" else ["<|endoftext|>", "<fim>"]
    trainer = peer.trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=steps.ByteLevel.alphabet(), show_progress=False
    )
    model.train_from_iterator([document.text for document in documents], trainer)
    if name == "llama3":
        model.add_special_tokens(["<|begin|>", "<|end|>"])
    return model


@pytest.mark.peers
@pytest.mark.parametrize("name", ["gpt2", "llama3", "qwen2", "starcoder"])
def test_tokenizers_of_other_kinds_keep_their_ids_when_imported_and_exported(documents, texts, tmp_path, name):
    model = peer_model(documents, name)
    model.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.from_huggingface(tmp_path / "tokenizer.json", special_tokens=["<eod>"])
    same_ids(ours, texts, lambda text: model.encode(text).ids)
    number = model.get_vocab_size()
    assert ours.vocab_size == number + 1 and ours.special_tokens["<eod>"] == number
    assert all(ours.special_tokens[token] == model.token_to_id(token) for token in list(ours.special_tokens)[:-1])
    ours.save(tmp_path / "ours")
    again = type(model).from_file(str(tmp_path / "ours" / "tokenizer.json"))
    same_ids(Tokenizer.load(tmp_path / "ours"), texts, lambda text: again.encode(text).ids)
    assert all(again.token_to_id(token) == place for token, place in ours.special_tokens.items())
    assert again.encode("a<eod>").ids == ours.encode("a<eod>", allowed_special=["<eod>"])


def as_published(content, name):
    """The file with what its authors' files hold besides: post-processors, older spellings, empty affixes."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    content["post_processor"] = byte_level
    content["model"] |= {"continuing_subword_prefix": "", "end_of_word_suffix": "", "unk_token": None}
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    if name == "gpt2":
        del content["pre_tokenizer"]["use_regex"], content["model"]["byte_fallback"]
        content["model"]["unk_token"] = "<|endoftext|>"
    if name == "llama3":
        begin = {"<|begin|>": {"id": "<|begin|>", "ids": [400], "tokens": ["<|begin|>"]}}
        first = {"SpecialToken": {"id": "<|begin|>", "type_id": 0}}
        text = [{"Sequence": {"id": letter, "type_id": at}} for at, letter in enumerate("AB")]
        template = {"single": [first, text[0]], "pair": [first, text[0], first, text[1]], "special_tokens": begin}
        processors = [byte_level, {"type": "TemplateProcessing", **template}]
        content["post_processor"] = {"type": "Sequence", "processors": processors}
        content["model"]["ignore_merges"] = True
    if name == "qwen2":
        content["normalizer"] = {"type": "NFC"}
        content["added_tokens"][-1]["special"] = False
    return content


@pytest.mark.peers
@pytest.mark.parametrize("name", ["gpt2", "llama3", "qwen2", "starcoder"])
def test_files_as_their_authors_publish_them_keep_their_ids(documents, texts, tmp_path, name):
    content = as_published(json.loads(peer_model(documents, name).to_str()), name)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    model = pytest.importorskip("tokenizers").Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.from_huggingface(tmp_path, drop_normalizer=name == "qwen2")
    composed = [text for text in texts if unicodedata.is_normalized("NFC", text)]
    assert len(composed) > 300
    same_ids(ours, composed, lambda text: model.encode(text, add_special_tokens=False).ids)
    assert ours.vocab_size == model.get_vocab_size()


def test_what_is_not_taken_over_is_said(small_tokenizer, tmp_path, caplog):
    content = to_tokenizer_json(small_tokenizer)
    content["added_tokens"][0]["special"] = False
    content["truncation"] = {"max_length": 8, "strategy": "LongestFirst", "direction": "Right", "stride": 0}
    content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = r"\h+|[^\h]+"
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    Tokenizer.from_huggingface(tmp_path)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3 and not any("\n" in line for line in said)
    assert "pattern is none of" in said[0] and "1 added tokens are special here" in said[1] and "truncation" in said[2]
    caplog.clear()
    small_tokenizer.save(tmp_path / "ours")
    Tokenizer.load(tmp_path / "ours")
    Tokenizer.from_huggingface(tmp_path / "ours")
    assert not caplog.records


def other_models(peer):
    """Tokenizers that are no byte-level BPE, as `tokenizers` makes them."""
    sentencepiece = peer.Tokenizer(
        peer.models.BPE(byte_fallback=True, unk_token="<unk>", vocab={"<unk>": 0}, merges=[])
    )
    sentencepiece.normalizer = peer.normalizers.Sequence(
        [peer.normalizers.Prepend("▁"), peer.normalizers.Replace(" ", "▁")]
    )
    metaspace = peer.Tokenizer(peer.models.BPE())
    metaspace.pre_tokenizer = peer.pre_tokenizers.Metaspace()
    word_piece = peer.Tokenizer(peer.models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    word_piece.normalizer = peer.normalizers.BertNormalizer()
    unigram = peer.Tokenizer(peer.models.Unigram([("a", -1.0)]))
    word_level = peer.Tokenizer(peer.models.WordLevel({"a": 0}, unk_token="a"))
    return {
        "model Unigram": unigram,
        "model WordPiece": word_piece,
        "model WordLevel": word_level,
        "byte_fallback True": sentencepiece,
        "pre-tokenizer Metaspace": metaspace,
    }


@pytest.mark.peers
def test_other_kinds_of_tokenizers_are_refused_by_name(tmp_path):
    for found, model in other_models(pytest.importorskip("tokenizers")).items():
        model.save(str(tmp_path / "tokenizer.json"))
        with pytest.raises(TokenizerError, match=f"tokenizer.json must be byte-level BPE, got {found}: "):
            Tokenizer.from_huggingface(tmp_path, drop_normalizer=True)


@pytest.mark.parametrize(
    ("names", "first", "last"),
    [
        (["<|endoftext|>", "<fim>"], "<|endoftext|>", "<|endoftext|>"),
        (["<|begin_of_text|>", "<|end_of_text|>"], "<|begin_of_text|>", "<|end_of_text|>"),
        (["<|endoftext|>", "<eod>"], "<eod>", "<eod>"),
        (["<fim>"], None, None),
    ],
)
def test_special_tokens_have_the_roles_that_their_names_tell(names, first, last):
    config = to_tokenizer_config(Tokenizer(np.zeros((0, 2)), names))
    assert (config.get("bos_token"), config.get("eos_token")) == (first, last)
    assert "chat_template" not in config and "pad_token" not in config


def test_every_way_to_make_a_token_comes_down_to_one(small_tokenizer, texts, tmp_path):
    """As in Llama 3's file: its merges are all ways to cut a token in two that the vocabulary holds."""
    small_tokenizer.save(tmp_path / "ours")
    content = json.loads((tmp_path / "ours" / "tokenizer.json").read_text())
    vocab, merges = content["model"]["vocab"], []
    for token in list(vocab)[256:]:
        cuts = [[token[:at], token[at:]] for at in range(1, len(token))]
        cuts = [cut for cut in cuts if cut[0] in vocab and cut[1] in vocab]
        merges += sorted(cuts, key=lambda cut: (vocab[cut[0]], vocab[cut[1]]))
    assert len(merges) > len(content["model"]["merges"])
    content["model"] |= {"merges": [" ".join(merge) for merge in merges], "ignore_merges": True}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    imported = Tokenizer.from_huggingface(tmp_path)
    assert imported.fingerprint == small_tokenizer.fingerprint


REFUSED = {
    "another model": (lambda c: c["model"].update(type="Unigram"), "got model Unigram"),
    "byte fallback": (lambda c: c["model"].update(byte_fallback=True), "got byte_fallback True"),
    "suffixes": (lambda c: c["model"].update(end_of_word_suffix="</w>"), "got end_of_word_suffix"),
    "a normalizer": (
        lambda c: c.update(normalizer={"type": "NFC"}),
        "normalizer NFC, .* --drop-normalizer true",
    ),
    "lower case": (
        lambda c: c.update(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}),
        "got normalizer NFC, Lowercase: ",
    ),
    "a prefix space": (
        lambda c: c.update(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}),
        "got pre-tokenizer ByteLevel with add_prefix_space",
    ),
    "another pre-tokenizer": (lambda c: c.update(pre_tokenizer={"type": "Metaspace"}), "got pre-tokenizer Metaspace"),
    "no pre-tokenizer": (lambda c: c.update(pre_tokenizer=None), "got no pre-tokenizer"),
    "an added token of blanks": (lambda c: c["added_tokens"][0].update(content="  "), "which ordinary text spells"),
    "a token without a merge": (lambda c: c["model"]["vocab"].update(zzz=391), "1 tokens that no merge makes"),
    "a gap": (lambda c: c["added_tokens"][-1].update(id=999), "so with gaps"),
    "a byte missing": (lambda c: c["model"]["vocab"].pop("a"), "got KeyError"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_what_would_give_other_ids_is_refused_in_one_line(small_tokenizer, tmp_path, change, message):
    small_tokenizer.save(tmp_path / "ours")
    content = json.loads((tmp_path / "ours" / "tokenizer.json").read_text())
    change(content)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.from_huggingface(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_normalizer_is_dropped_when_asked(small_tokenizer, tmp_path):
    small_tokenizer.save(tmp_path / "ours")
    content = json.loads((tmp_path / "ours" / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps({**content, "normalizer": {"type": "NFC"}}))
    imported = Tokenizer.from_huggingface(tmp_path, drop_normalizer=True)
    assert imported.fingerprint == small_tokenizer.fingerprint and imported.provenance["normalizer"] == "dropped"


BAD_RANKS = {
    "no base64": (b"@@ 1\n", "line must be a token in base64 and its rank, got b'@@ 1' in line 1"),
    "no rank": (b"YQ==\n", "in line 1"),
    "a gap": (b"YQ== 7\n", "ranks must be 0 to 0, each once"),
    "few bytes": (b"YQ== 0\n", "ranks must hold all 256 bytes, got none for byte 0x00"),
}


@pytest.mark.parametrize(("content", "message"), BAD_RANKS.values(), ids=BAD_RANKS)
def test_bad_rank_files_are_refused(tmp_path, content, message):
    (tmp_path / "bad.tiktoken").write_bytes(content)
    with pytest.raises(TokenizerError, match=message):
        Tokenizer.from_tiktoken(tmp_path / "bad.tiktoken")


def test_a_rank_that_no_pair_makes_is_refused(tmp_path):
    path = write_ranks(Tokenizer(np.zeros((0, 2)), ()), tmp_path / "bad.tiktoken")
    path.write_bytes(path.read_bytes() + b"YWJj 256\n")
    with pytest.raises(TokenizerError, match="got token b'abc', which earlier ones encode in 3 parts"):
        Tokenizer.from_tiktoken(path)


def test_ids_that_do_not_rise_with_merges_are_not_exported_as_ranks():
    swapped = Tokenizer(np.array([[97, 98], [98, 97]]), (), ids=np.array([*range(256), 257, 256]))
    with pytest.raises(TokenizerError, match="ids must rise with the merges"):
        export_tiktoken(swapped)


def test_commands_export_and_import(small_tokenizer, tmp_path, capsys):
    folder, ranks, json_file = tmp_path / "tokenizer", tmp_path / "a.tiktoken", tmp_path / "a.json"
    small_tokenizer.save(folder)
    assert main(["export", "--tokenizer", str(folder), "--output", str(ranks)]) == 0
    assert main(["export", "--tokenizer", str(folder), "--output", str(json_file), "--format", "huggingface"]) == 0
    nameless = json_file.rename(tmp_path / "nameless")
    assert main(["import", str(nameless), "--output", str(tmp_path / "b")]) == 0
    assert main(["import", str(ranks), "--output", str(tmp_path / "c"), "--special-tokens", "<eod>"]) == 0
    assert Tokenizer.load(tmp_path / "b").fingerprint == small_tokenizer.fingerprint
    assert Tokenizer.load(tmp_path / "c").special_tokens == {"<eod>": 380}
    assert "in place of" not in capsys.readouterr().out
    assert main(["import", str(ranks), "--output", str(tmp_path / "c")]) == 0
    assert capsys.readouterr().out.endswith(", in place of the tokenizer that was there\n")
    assert main(["import", str(tmp_path / "none.tiktoken"), "--output", str(tmp_path / "d")]) == 2
    assert "error: file must be readable, got No such file" in capsys.readouterr().err
