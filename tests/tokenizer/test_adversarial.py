"""Input that nobody means to give: right results, or one clear line."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokenizer import Tokenizer, train
from tokenizer.commands import main
from tokenizer.counting import counts as counting
from tokenizer.counting.counts import count_words

MIXED_ENDS = "a\r\nb\rc\n\r\nd\n\r\r\n\n  e \r f\t\r\n"


@pytest.fixture
def trained(tmp_path, capsys):
    """Runs `train` on files of a folder: (exit code, output, lines of errors and warnings)."""

    def run(*names, **options):
        flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        paths = [str(tmp_path / name) for name in names]
        code = main(["train", *paths, "--output", str(tmp_path / "out"), "--vocab-size", "300", *flags])
        output, errors = capsys.readouterr()
        lines = [line for line in errors.splitlines() if line.startswith(("error", "warning", "Traceback"))]
        return code, output, lines

    return run


def merged(tokenizer):
    return [tokenizer.token_bytes[number] for number in range(256, 256 + len(tokenizer.pairs))]


@pytest.mark.parametrize("kind", ["text", "jsonl", "parquet"])
def test_bytes_that_are_not_utf8_are_named_with_file_and_place(trained, tmp_path, kind):
    bad = b"good \xc3\x28"
    if kind == "text":
        (tmp_path / "bad").write_bytes(bad)
    elif kind == "jsonl":
        (tmp_path / "bad.jsonl").write_bytes(b'{"text": "fine"}\n{"text": "' + bad + b'"}\n')
    else:
        pq.write_table(pa.table({"text": pa.array([b"fine", bad], pa.binary())}), tmp_path / "bad.parquet")
    name = {"text": "bad", "jsonl": "bad.jsonl", "parquet": "bad.parquet"}[kind]
    code, _, lines = trained(name)
    place = {"text": "at 5 of", "jsonl": "line 2 of", "parquet": "in row 1 of"}[kind]
    assert code == 2 and len(lines) == 1
    assert "must be UTF-8, got byte 0xc3" in lines[0] and place in lines[0] and str(tmp_path / name) in lines[0]
    assert lines[0].endswith("; --on-error skip leaves such documents out and counts them")
    assert not (tmp_path / "out").exists()


def test_nul_bytes_are_bytes_like_others(tmp_path):
    text = "\0\0\0\0 a\0b\0"
    made = train([(text * 9, "r", "l")], vocab_size=264, special_tokens=["<e>"], num_reserved=0, pattern="none")
    made.save(tmp_path / "t")
    loaded = Tokenizer.load(tmp_path / "t")
    assert b"\0\0" in merged(loaded) and loaded.decode(loaded.encode(text)) == text
    pieces = [loaded.token_bytes[number] for number in loaded.encode(text)]
    assert b"".join(pieces) == text.encode() and len(pieces) < len(text)


@pytest.mark.parametrize("pattern", ["none", "gpt4"])
@pytest.mark.parametrize("letter", ["a", " ", "=", "é"])
def test_one_word_of_one_letter_doubles(pattern, letter):
    made = train([(letter * 2**16, "r", "l")], vocab_size=300, special_tokens=[], num_reserved=0, pattern=pattern)
    first = 1 if len(letter.encode()) == 1 else 2
    expected = [letter.encode() * 2**power for power in range(2 - first, 17)]
    assert merged(made) == expected
    assert len(made.encode(letter * 2**16)) == 1 and len(made.encode(letter * (2**17 - 1))) == 17


@pytest.mark.parametrize("pattern", ["none", "gpt4"])
def test_one_long_word_of_random_letters_comes_back(pattern):
    text = np.random.default_rng(0).integers(97, 100, 60_000, dtype=np.uint8).tobytes().decode()
    made = train([(text, "r", "l")], vocab_size=400, special_tokens=[], num_reserved=0, pattern=pattern)
    ids = made.encode(text)
    assert made.vocab_size == 400 and len(ids) < len(text) / 3 and made.decode(ids) == text
    pairs = Counter(pairwise(text))
    first, second = merged(made)[0].decode()
    assert pairs[first, second] == max(pairs.values())


def test_empty_files_hold_nothing(trained, tmp_path):
    for name, text in (("a", ""), ("b", "ab ab ab"), ("c", "")):
        (tmp_path / name).write_text(text)
    assert trained("a", "b", "c")[0] == 0
    assert sorted(merged(Tokenizer.load(tmp_path / "out"))) == [b" ab", b"ab"]


def test_only_empty_documents_make_a_vocabulary_of_bytes_and_say_so(trained, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    code, output, lines = trained("a", "b")
    assert code == 0 and "267 tokens from 2 documents" in output
    assert lines == ["warning: no pair is left to merge: the vocabulary has 267 tokens, 33 fewer than vocab_size 300"]
    assert Tokenizer.load(tmp_path / "out").encode("ab") == [97, 98]


def test_very_many_tiny_documents_are_counted_one_by_one(monkeypatch):
    monkeypatch.setattr(counting, "_BATCH_CHARACTERS", 1000)
    documents = [(chr(97 + n % 26), f"r{n % 100}", "l") for n in range(5000)] + [("", "s", "m")] * 5000
    counts = count_words(documents, "gpt4")
    assert counts.counts.tolist() == list(Counter(text for text, *_ in documents if text).values())
    assert len(counts.repository_names) == 101 and np.diff(counts.repository_offsets).max() == 50


def test_a_missing_column_is_named_and_what_there_is_instead(trained, tmp_path):
    pq.write_table(pa.table({"content": ["a"], "repo": ["r"]}), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text(json.dumps({"content": "a"}) + "\n")
    for name, columns in (("a.parquet", "content, repo"), ("b.jsonl", "content")):
        code, _, lines = trained(name)
        assert code == 2 and len(lines) == 1
        assert lines[0].startswith(f"error: --text-column must be one of {columns}, got 'text'") and name in lines[0]
    code, _, lines = trained("a.parquet", text_column="content", language_column="lang")
    assert code == 2 and lines[0].startswith("error: --language-column must be one of content, repo, got 'lang'")


def test_a_repository_without_a_name_is_one_repository():
    documents = [("ab ab", "", "l"), ("ab", "", "l"), ("ab cd", "r", "l")]
    made = train(documents, vocab_size=258, special_tokens=[], num_reserved=0, priority="F*logR")
    assert made.merges is not None and made.provenance["repositories"] == 2
    assert merged(made)[0] == b"ab" and made.merges.repositories[0] == 2


def test_300_languages_are_counted_each():
    documents = [("all" if n % 3 else "all few", f"r{n % 7}", f"language {n}") for n in range(300)]
    made = train(documents, vocab_size=261, special_tokens=[], num_reserved=0, priority="F*L")
    assert made.merges is not None and made.provenance["languages"] == 300
    by_token = dict(zip(merged(made), made.merges.languages.tolist(), strict=True))
    assert by_token[b"all"] == 300 and by_token[b" few"] == 100


@pytest.mark.parametrize("pattern", ["none", "gpt2", "gpt4", "o200k"])
def test_mixed_line_ends_stay_what_they_are(tmp_path, pattern):
    made = train([(MIXED_ENDS * 3, "r", "l")], vocab_size=290, pattern=pattern)
    made.save(tmp_path / "t")
    (tmp_path / "text").write_bytes(MIXED_ENDS.encode())
    arguments = ["--tokenizer", str(tmp_path / "t")]
    assert main(["encode", *arguments, str(tmp_path / "text"), "--output", str(tmp_path / "ids.npy")]) == 0
    assert main(["decode", *arguments, str(tmp_path / "ids.npy"), "--output", str(tmp_path / "back")]) == 0
    assert (tmp_path / "back").read_bytes() == MIXED_ENDS.encode()
    assert np.load(tmp_path / "ids.npy").tolist() == made.encode(MIXED_ENDS)


@pytest.mark.peers
def test_awkward_vocabularies_have_the_same_ids_in_tokenizers(tmp_path):
    peer = pytest.importorskip("tokenizers")
    texts = [MIXED_ENDS, "\0\0\0 a\0b", "é" * 500, " " * 500, "".join(map(chr, range(0x3000)))]
    for pattern in ("none", "gpt2", "gpt4"):
        made = train([(text * 3, "", str(n)) for n, text in enumerate(texts)], vocab_size=600, pattern=pattern)
        made.save(tmp_path / pattern)
        theirs = peer.Tokenizer.from_file(str(tmp_path / pattern / "tokenizer.json"))
        assert all(theirs.encode(text).ids == made.encode(text) for text in texts)
