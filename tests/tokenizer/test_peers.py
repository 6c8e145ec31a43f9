"""The artefact in the hands of Hugging Face: the same ids."""

import random

import pytest

from tokenizer import TokenizerError

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:::transformers")]

AWKWARD = {
    "empty": "",
    "emoji": "hi 🎉🎉👩‍👩‍👧‍👦 \U0001f1e9\U0001f1ea",
    "windows line ends": "a\r\nb\r\n\r\n\tc\r\n",
    "byte-order mark": "\ufeffimport os",
    "20k equal letters": "a" * 20_000,
    "100k spaces": " " * 100_000,
    "newlines": "\n" * 5000 + "x",
    "equals signs": "=" * 5000,
    "NUL": "a\0b\0\0",
    "accents": "e\u0301 é Straße ΑΒΓ don't DON'T \u017f'\u017f",
    "digits": "1 12 123 1234 12345678 ٣٤٥",
    "spaces": "a  b   c\t\td \u00a0e\u3000f\u2028g\u0085h\x1ci ",
    "no text": "\x7f\x80\u0378\uffff\U0010ffff",
}
SPECIAL = "a<eod>b<pad><|unused_token_0|> <eos>"


@pytest.fixture(scope="module")
def folder(small_tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("peers") / "tokenizer"
    small_tokenizer.save(path)
    return path


@pytest.fixture(scope="module")
def tokenizers_peer(folder):
    return pytest.importorskip("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def transformers_peer(folder):
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
def test_awkward_text_has_the_same_ids_everywhere(small_tokenizer, tokenizers_peer, transformers_peer, text):
    ids = small_tokenizer.encode(text)
    assert tokenizers_peer.encode(text).ids == ids
    assert transformers_peer.encode(text) == ids
    assert small_tokenizer.decode(ids) == text == tokenizers_peer.decode(ids) == transformers_peer.decode(ids)


def test_random_text_has_the_same_ids(small_tokenizer, tokenizers_peer):
    source = random.Random(5)
    letters = "ab  \n\r\t'sdLl12=+_é東🎉\u0301\u00a0\u2028"
    texts = ["".join(source.choices(letters, k=source.randrange(40))) for _ in range(2000)]
    ids, offsets = small_tokenizer.encode_batch(texts)
    for text, start, end in zip(texts, offsets, offsets[1:], strict=False):
        assert tokenizers_peer.encode(text).ids == ids[start:end].tolist(), repr(text)


def test_transformers_takes_a_spelled_special_token_as_text_too(small_tokenizer, transformers_peer):
    assert transformers_peer.encode(SPECIAL) == small_tokenizer.encode(SPECIAL)


def test_plain_tokenizers_parses_special_tokens_as_we_do_when_all_are_allowed(small_tokenizer, tokenizers_peer):
    allowed = small_tokenizer.encode(SPECIAL, allowed_special=list(small_tokenizer.special_tokens))
    assert tokenizers_peer.encode(SPECIAL).ids == allowed != small_tokenizer.encode(SPECIAL)


def test_special_tokens_have_the_same_ids_and_roles(small_tokenizer, tokenizers_peer, transformers_peer):
    for name, number in small_tokenizer.special_tokens.items():
        assert tokenizers_peer.token_to_id(name) == number == transformers_peer.convert_tokens_to_ids(name)
    assert transformers_peer.eos_token == transformers_peer.bos_token == "<eod>"
    assert len(transformers_peer) == small_tokenizer.vocab_size == tokenizers_peer.get_vocab_size()


def test_transformers_has_defaults_without_chat(transformers_peer):
    roles = [transformers_peer.pad_token, transformers_peer.unk_token, transformers_peer.mask_token]
    assert roles == ["<pad>", "<unk>", "<mask>"] and transformers_peer.chat_template is None
    batch = transformers_peer(["a", "a<eod>"], padding=True)
    assert batch["input_ids"][0][:2] == [97, transformers_peer.pad_token_id]
    assert batch["attention_mask"][0] == [1] + [0] * (len(batch["input_ids"][1]) - 1)
    spelled = [97, transformers_peer.eos_token_id, transformers_peer.convert_tokens_to_ids("<eot>")]
    assert transformers_peer.decode(spelled, skip_special_tokens=True) == "a"


def test_a_lone_surrogate_is_refused_here_as_there(small_tokenizer, tokenizers_peer):
    with pytest.raises(TokenizerError):
        small_tokenizer.encode("\udc80")
    with pytest.raises((TypeError, UnicodeEncodeError)):
        tokenizers_peer.encode("\udc80")


@pytest.mark.parametrize("pattern", ["none", "gpt2", "o200k", r"\w+|\W"])
def test_other_patterns_split_alike_there(documents, tmp_path, pattern):
    peer = pytest.importorskip("tokenizers")
    from tokenizer import train

    ours = train(documents, vocab_size=340, pattern=pattern, priority="F")
    ours.save(tmp_path / "tokenizer")
    theirs = peer.Tokenizer.from_file(str(tmp_path / "tokenizer" / "tokenizer.json"))
    for document in documents[:8]:
        assert theirs.encode(document.text).ids == ours.encode(document.text)
